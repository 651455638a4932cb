// Driver functions had from the runtime library.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "check.h"

int main(void) {
  CUresult (*allocate)(CUdeviceptr*, size_t) = NULL;
  CUresult (*release)(CUdeviceptr) = NULL;
  void* missing = (void*)&allocate;
  enum cudaDriverEntryPointQueryResult status;
  CUdeviceptr p = 0;
  CHECK(cudaFree(NULL) == cudaSuccess);
  CHECK(cudaGetDriverEntryPointByVersion("cuMemAlloc", (void**)&allocate, 13000, 0, &status) == cudaSuccess);
  CHECK(cudaGetDriverEntryPointByVersion("cuMemFree", (void**)&release, 13000, 0, &status) == cudaSuccess);
  CHECK(cudaGetDriverEntryPointByVersion("cuNoSuchFunction", &missing, 13000, 0, &status) == cudaSuccess);
  CHECK(missing == NULL);
  CHECK(allocate(&p, 1000) == CUDA_SUCCESS && release(p) == CUDA_SUCCESS);
  return 0;
}
