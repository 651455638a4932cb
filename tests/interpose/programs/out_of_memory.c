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

  // Refused by the allocator itself (sizes that end in 9): the driver, which has the memory, is not asked.
  const long before = FakeCudaCalls("cuMemAlloc_v2");
  CHECK(before > 0);
  CUdeviceptr address = 1;
  CHECK(cudaMalloc(&p, 1009) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaMallocAsync(&p, 1009, 0) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cuMemAlloc(&address, 1009) == CUDA_ERROR_OUT_OF_MEMORY && address == 0);
  CHECK(FakeCudaCalls("cuMemAlloc_v2") == before);
  CHECK(cudaMalloc(&p, 1000) == cudaSuccess && cudaFree(p) == cudaSuccess);
  return 0;
}
