// Host functions that ask for memory: the driver forbids it to them, and nobody waits for ever. The driver runs them on
// a thread of its own, while the threads that wait for them are inside calls of the same kind.
#include <cuda.h>

#include "check.h"

enum { kBytes = 1 << 20 };

static CUdeviceptr kept;
static CUresult results[4];

static void CUDA_CB Ask(void* nothing) {
  CUdeviceptr block = 0;
  (void)nothing;
  results[0] = cuMemAlloc(&block, kBytes);
  results[1] = cuMemAllocAsync(&block, kBytes, CU_STREAM_LEGACY);
  results[2] = cuMemFree(kept);
  results[3] = cuMemFreeAsync(kept, CU_STREAM_LEGACY);
}

int main(void) {
  CUcontext context;
  CUstream stream;
  CHECK(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS && cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  for (int round = 0; round < 20; ++round) {
    CUdeviceptr other = 0;
    CHECK(cuMemAlloc(&kept, kBytes) == CUDA_SUCCESS && cuMemAlloc(&other, kBytes) == CUDA_SUCCESS);
    CHECK(cuLaunchHostFunc(stream, Ask, NULL) == CUDA_SUCCESS);
    CHECK(cuMemFree(other) == CUDA_SUCCESS);  // waits for the host function
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    for (int i = 0; i < 4; ++i) CHECK(results[i] == CUDA_ERROR_NOT_PERMITTED);
    CHECK(cuMemFree(kept) == CUDA_SUCCESS);
  }
  return 0;
}
