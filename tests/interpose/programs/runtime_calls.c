// The runtime library's memory functions, beginning with one in a thread that has no context. Holds with and without
// the shim, linked to a shared cudart or a static one, with the legacy or the per-thread default stream.
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "check.h"

static void* InThread(void* unused) {
  (void)unused;
  void* p = NULL;
  CHECK(cudaMallocAsync(&p, 1000, 0) == cudaSuccess && p != NULL);
  CHECK(cudaFreeAsync(p, 0) == cudaSuccess);
  return NULL;
}

int main(void) {
  void* p = NULL;
  void* q = NULL;
  void* none = &p;

  CHECK(cudaMalloc(&p, 1000) == cudaSuccess && p != NULL);
  CHECK(cudaMalloc(&q, 1000) == cudaSuccess && q != NULL && q != p);
  CHECK(cudaFree(p) == cudaSuccess);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK(cudaFree(p) == cudaErrorInvalidValue);  // twice
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaFree((char*)q + 256) == cudaErrorInvalidValue);  // inside
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaFreeAsync(q, 0) == cudaSuccess);  // crossed
  CHECK(cudaMalloc(&none, 0) == cudaSuccess && none == NULL);
  CHECK(cudaFree(NULL) == cudaSuccess);

  CHECK(cudaMallocAsync(&p, 5000, 0) == cudaSuccess);
  CHECK(cudaFree(p) == cudaSuccess);  // crossed
  CHECK(cudaMallocAsync(&p, 0, 0) == cudaSuccess && p == NULL);

  CHECK(cudaMalloc(&p, 1007) == cudaSuccess);  // the double passes sizes that end in 7
  CHECK(cudaFree(p) == cudaSuccess);
  CHECK(cudaMallocAsync(&p, 1007, 0) == cudaSuccess);
  CHECK(cudaFreeAsync(p, 0) == cudaSuccess);

  size_t pitch = 0;
  CHECK(cudaMallocPitch(&p, &pitch, 700, 3) == cudaSuccess && pitch == 1024);
  CHECK(cudaFree(p) == cudaSuccess);

  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, InThread, NULL) == 0 && pthread_join(thread, NULL) == 0);

  // More than there is; then the process goes on.
  CHECK(cudaMalloc(&p, ((size_t)1 << 40) + 1) == cudaErrorMemoryAllocation);  // ends in 7
  cudaGetLastError();
  CHECK(cudaMalloc(&p, 1000) == cudaSuccess && cudaFree(p) == cudaSuccess);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  return 0;
}
