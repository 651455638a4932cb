// The runtime library on a machine without a driver: every call gets its own error, nothing else happens.
#include <cuda_runtime_api.h>

#include "check.h"

int main(void) {
  void* p = (void*)&main;
  CHECK(cudaMalloc(&p, 1000) == cudaErrorInsufficientDriver && p == (void*)&main);
  CHECK(cudaGetLastError() == cudaErrorInsufficientDriver);
  CHECK(cudaMallocAsync(&p, 1000, 0) == cudaErrorInsufficientDriver && p == (void*)&main);
  CHECK(cudaFree(NULL) == cudaErrorInsufficientDriver);
  return 0;
}
