// Allocates, ends the context with everything in it, and does both again, as many small programs do at their end.
#include <cuda_runtime_api.h>

#include "check.h"

int main(void) {
  void* block = NULL;
  for (int round = 0; round < 2; ++round) {
    CHECK(cudaMallocAsync(&block, 3 << 20, 0) == cudaSuccess);
    CHECK(cudaDeviceReset() == cudaSuccess);
  }
  return 0;
}
