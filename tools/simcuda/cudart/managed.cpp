#include "managed.h"

namespace stalloc::simcuda::cudart {

CUDART_RENAMED("cudaMemPrefetchAsync", "cudaMemPrefetchAsync_v2", Prefetch, const void* pointer, size_t size_bytes,
               cudaMemLocation, unsigned, cudaStream_t) {
  return HintAbout(pointer, size_bytes);
}

CUDART_RENAMED("cudaMemAdvise", "cudaMemAdvise_v2", Advise, const void* pointer, size_t size_bytes, cudaMemoryAdvise,
               cudaMemLocation) {
  return HintAbout(pointer, size_bytes);
}

}  // namespace stalloc::simcuda::cudart
