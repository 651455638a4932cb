// Functions that programs import and the simulation does not have: they say so.
#include "runtime.h"

namespace stalloc::simcuda::cudart {

CUDART_EXPORT cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t*, cudaEvent_t) {
  return Finish(cudaErrorNotSupported);
}

CUDART_EXPORT cudaError_t cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t) {
  return Finish(cudaErrorNotSupported);
}

}  // namespace stalloc::simcuda::cudart
