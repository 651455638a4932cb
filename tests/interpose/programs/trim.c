// What PyTorch's empty_cache() does: wait for the device, then trim the pool. Nothing is used, so nothing stays.
#include <cuda_runtime_api.h>
#include <stdint.h>

#include "check.h"

int main(void) {
  void* blocks[3];
  cudaMemPool_t pool;
  cudaStream_t stream;
  uint64_t reserved = 1;
  CHECK(cudaSetDevice(0) == cudaSuccess && cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess);
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  for (int i = 0; i < 3; ++i) CHECK(cudaMallocAsync(&blocks[i], 10 << 20, stream) == cudaSuccess);
  CHECK(cudaMemsetAsync(blocks[0], 1, 10 << 20, stream) == cudaSuccess);
  for (int i = 0; i < 3; ++i) CHECK(cudaFreeAsync(blocks[i], stream) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess && cudaMemPoolTrimTo(pool, 0) == cudaSuccess);
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved) == cudaSuccess && reserved == 0);
  return 0;
}
