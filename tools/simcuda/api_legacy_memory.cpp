// The memory functions of CUDA 2.0 and 3.0, with 32-bit device pointers. They are still exported and still what
// cuGetProcAddress answers to somebody who asks for version 2000; on a 64-bit device they can give nothing out.
#include "call.h"

#undef cuMemGetInfo
#undef cuMemAlloc
#undef cuMemAllocPitch
#undef cuMemFree
#undef cuMemGetAddressRange

namespace stalloc::simcuda {

SIMCUDA_EXPORT CUresult cuMemGetInfo(unsigned* free_bytes, unsigned* total_bytes) {
  return Enter(EntryPoint::k_cuMemGetInfo, [&](Call& call) {
    constexpr std::uint64_t kMost = ~0u;
    const DeviceMemory& memory = *call.machine.FindDevice(call.context->device)->memory;
    const std::uint64_t unused = memory.free_bytes();
    if (free_bytes != nullptr) *free_bytes = static_cast<unsigned>(std::min(unused, kMost));
    if (total_bytes != nullptr) *total_bytes = static_cast<unsigned>(std::min(memory.total_bytes(), kMost));
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuMemAlloc(unsigned*, unsigned) {
  return Enter(EntryPoint::k_cuMemAlloc, [](Call&) { return CUDA_ERROR_OUT_OF_MEMORY; });
}

SIMCUDA_EXPORT CUresult cuMemAllocPitch(unsigned*, unsigned*, unsigned, unsigned, unsigned) {
  return Enter(EntryPoint::k_cuMemAllocPitch, [](Call&) { return CUDA_ERROR_OUT_OF_MEMORY; });
}

SIMCUDA_EXPORT CUresult cuMemFree(unsigned) {
  return Enter(EntryPoint::k_cuMemFree, [](Call&) { return CUDA_ERROR_INVALID_VALUE; });
}

SIMCUDA_EXPORT CUresult cuMemGetAddressRange(unsigned*, unsigned*, unsigned) {
  return Enter(EntryPoint::k_cuMemGetAddressRange, [](Call&) { return CUDA_ERROR_INVALID_VALUE; });
}

}  // namespace stalloc::simcuda
