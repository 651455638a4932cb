// cudaGetDriverEntryPoint: the driver's functions by way of the runtime. Compiled twice: see stream_order.cpp.
#include "runtime.h"

namespace stalloc::simcuda::cudart {
namespace {

cudaError_t FindEntryPoint(const char* name, void** function, unsigned version, unsigned long long flags,
                           cudaDriverEntryPointQueryResult* status) {
  return Finish(WithDriver([&](const Driver& driver) {
    if (name == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    cuuint64_t driver_flags = flags;
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    if (flags == cudaEnableDefault) driver_flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
#endif
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    const CUresult result = driver.get_proc_address(name, function, static_cast<int>(version), driver_flags, &found);
    if (result != CUDA_SUCCESS) return result;
    if (status != nullptr) *status = static_cast<cudaDriverEntryPointQueryResult>(found);
    // Without a status the caller could not tell.
    return status == nullptr && *function == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
  }));
}

}  // namespace

// Looks for the version that this runtime was made with.
CUDART_EXPORT cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                                  cudaDriverEntryPointQueryResult* status) {
  return FindEntryPoint(name, function, kRuntimeVersion, flags, status);
}

CUDART_EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                                           unsigned long long flags,
                                                           cudaDriverEntryPointQueryResult* status) {
  return FindEntryPoint(name, function, version, flags, status);
}

}  // namespace stalloc::simcuda::cudart
