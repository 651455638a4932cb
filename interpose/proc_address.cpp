// The resolvers: cuGetProcAddress in both of its forms, and the runtime library's two around it.
//
// The real one answers first, and decides which function the name, version and flags mean; its answer is replaced only
// if it is a real pointer that a wrapper stands for. So there is no guessing of versions here, and the answer to
// "cuGetProcAddress" itself is the wrapper with as many arguments as the version asked for has.
#include "process_life.h"
#include "real_symbols.h"

namespace stalloc::interpose {
namespace {

// An out-parameter is read only after success; it may be null, which is the real function's to refuse.
void Replace(void** function) noexcept {
  if (Enabled() && function != nullptr) *function = WrapperFor(*function);
}

template <Entry kEntry, typename... Rest>
cudaError_t Resolve(const char* symbol, void** function, Rest... rest) noexcept {
  const cudaError_t result = Forward<kEntry>(symbol, function, rest...);
  if (result == cudaSuccess) Replace(function);
  return result;
}

}  // namespace
}  // namespace stalloc::interpose

using namespace stalloc::interpose;

CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  const CUresult result = Forward<Entry::k_cuGetProcAddress>(symbol, function, version, flags);
  if (result == CUDA_SUCCESS) Replace(function);
  return result;
}

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  const CUresult result = Forward<Entry::k_cuGetProcAddress_v2>(symbol, function, version, flags, status);
  if (result == CUDA_SUCCESS) Replace(function);
  return result;
}

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* status) {
  return Resolve<Entry::k_cudaGetDriverEntryPoint>(symbol, function, flags, status);
}

cudaError_t cudaGetDriverEntryPoint_ptsz(const char* symbol, void** function, unsigned long long flags,
                                         cudaDriverEntryPointQueryResult* status) {
  return Resolve<Entry::k_cudaGetDriverEntryPoint_ptsz>(symbol, function, flags, status);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned int version,
                                             unsigned long long flags, cudaDriverEntryPointQueryResult* status) {
  return Resolve<Entry::k_cudaGetDriverEntryPointByVersion>(symbol, function, version, flags, status);
}

cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** function, unsigned int version,
                                                  unsigned long long flags, cudaDriverEntryPointQueryResult* status) {
  return Resolve<Entry::k_cudaGetDriverEntryPointByVersion_ptsz>(symbol, function, version, flags, status);
}
