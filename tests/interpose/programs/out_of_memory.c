// Allocations that the driver refuses once. Under the shim each is tried again after idle memory has been given back.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cuda.h>

#include "../fake/fake_cuda.h"
#include "check.h"

int main(void) {
  void* p = NULL;
  CUmemGenericAllocationHandle handle;
  CUmemAllocationProp properties = {0};
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CHECK(cudaFree(NULL) == cudaSuccess);
  FakeCudaFailNext(1);
  CHECK(cudaMalloc(&p, 1007) == cudaSuccess);  // declined by the double, refused by the driver, then not
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  FakeCudaFailNext(1);
  CHECK(cuMemCreate(&handle, 2 << 20, &properties, 0) == CUDA_SUCCESS);
  FakeCudaFailNext(2);
  CHECK(cudaMalloc(&p, 1007) == cudaErrorMemoryAllocation);  // refused twice: the program is told
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&p, 1007) == cudaSuccess);
  return 0;
}
