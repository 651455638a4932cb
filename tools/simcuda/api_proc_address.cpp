// cuGetProcAddress: which of a name's versions a program gets.
//
// The newest whose ABI is no newer than the version asked for. With the per-thread flag the _ptsz or _ptds variant is
// preferred where there is one.
#include <string_view>

#include "call.h"
#include "function_pointers.h"

#undef cuGetProcAddress

namespace stalloc::simcuda {
namespace {

CUresult Resolve(const char* name, void** function, int version, cuuint64_t flags,
                 CUdriverProcAddressQueryResult* status) {
  constexpr cuuint64_t kKnownFlags = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (name == nullptr || function == nullptr || version > CUDA_VERSION || (flags & ~kKnownFlags) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  *function = nullptr;
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  int best_since = 0;
  bool best_per_thread = false;
  for (std::size_t i = 0; i < kEntryPoints; ++i) {
    const EntryPointInfo& info = kEntryPointInfo[i];
    if (std::string_view(name) != info.name) continue;
    if (found == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND) found = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    if (info.since > version || (info.per_thread && !per_thread)) continue;
    if (*function != nullptr && best_per_thread && !info.per_thread) continue;
    if (*function != nullptr && best_per_thread == info.per_thread && info.since < best_since) continue;
    *function = reinterpret_cast<void*>(kFunctionPointers[i]);
    best_since = info.since;
    best_per_thread = info.per_thread;
    found = CU_GET_PROC_ADDRESS_SUCCESS;
  }
  if (status != nullptr) *status = found;
  return CUDA_SUCCESS;
}

}  // namespace

// The ABI of CUDA 11.3, which has no status: what is not there is an error.
SIMCUDA_EXPORT CUresult cuGetProcAddress(const char* name, void** function, int version, cuuint64_t flags) {
  return Enter(EntryPoint::k_cuGetProcAddress, [&](Call&) {
    const CUresult result = Resolve(name, function, version, flags, nullptr);
    return result == CUDA_SUCCESS && *function == nullptr ? CUDA_ERROR_NOT_FOUND : result;
  });
}

SIMCUDA_EXPORT CUresult cuGetProcAddress_v2(const char* name, void** function, int version, cuuint64_t flags,
                                            CUdriverProcAddressQueryResult* status) {
  return Enter(EntryPoint::k_cuGetProcAddress_v2,
               [&](Call&) { return Resolve(name, function, version, flags, status); });
}

}  // namespace stalloc::simcuda
