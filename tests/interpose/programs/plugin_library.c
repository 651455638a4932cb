// A plugin that is linked with the runtime library, as a Python extension is.
#include <cuda_runtime_api.h>

#include "check.h"

int PluginRun(void) {
  void* p = NULL;
  CHECK(cudaMalloc(&p, 1000) == cudaSuccess && cudaFree(p) == cudaSuccess);
  CHECK(cudaMalloc(&p, 1007) == cudaSuccess && cudaFree(p) == cudaSuccess);  // the double passes sizes that end in 7
  CHECK(cudaFree((char*)p + 1) == cudaErrorInvalidValue && cudaGetLastError() == cudaErrorInvalidValue);
  return 1;
}
