// start_fails FUNCTION CODE: the first call of a driver function fails, once; requests before and after it are answered
// as ever. Without the shim there may be no such call, which is as well.
#include <cuda.h>

#include "check.h"
#include "simcuda/extensions.h"

enum { kRequests = 16, kBytes = 1 << 20 };

int main(int count, char** arguments) {
  CHECK(count == 3);
  CUcontext context;
  CUstream stream;
  CHECK(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS && cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  CHECK(simcudaFailNext(arguments[1], 1, (CUresult)atoi(arguments[2])));
  for (int k = 0; k < kRequests; ++k) {
    CUdeviceptr block = 0;
    CHECK(cuMemAllocAsync(&block, kBytes, stream) == CUDA_SUCCESS && block != 0);
    CHECK(cuMemFreeAsync(block, stream) == CUDA_SUCCESS);
  }
  CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  return 0;
}
