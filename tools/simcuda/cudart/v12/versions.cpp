// Functions of CUDA 12 whose names CUDA 13 gave to later versions of them, or dropped.
#include "abi.h"

namespace stalloc::simcuda::cudart {

CUDART_AS("cudaEventElapsedTime_v2", ElapsedTime2, float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return cudaEventElapsedTime(milliseconds, start, end);
}

CUDART_AS("cudaThreadSynchronize", ThreadSynchronize) { return cudaDeviceSynchronize(); }
CUDART_AS("cudaThreadExit", ThreadExit) { return cudaDeviceReset(); }

}  // namespace stalloc::simcuda::cudart
