// Another shim of the simple kind: counts cudaMalloc and cuMemAlloc and calls the next one of that name. To be
// preloaded before the probe or after it; says its count at exit.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>

static int count;

cudaError_t cudaMalloc(void** pointer, size_t size) {
  cudaError_t (*next)(void**, size_t) = (cudaError_t(*)(void**, size_t))dlsym(RTLD_NEXT, "cudaMalloc");
  ++count;
  return next(pointer, size);
}

CUresult cuMemAlloc(CUdeviceptr* address, size_t size) {
  CUresult (*next)(CUdeviceptr*, size_t) = (CUresult(*)(CUdeviceptr*, size_t))dlsym(RTLD_NEXT, "cuMemAlloc_v2");
  ++count;
  return next(address, size);
}

__attribute__((destructor)) static void Say(void) {
  if (count != 0) printf("counted %d\n", count);
}
