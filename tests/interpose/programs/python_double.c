// Says what PyTorch would read of its environment. Its name makes it a Python interpreter, its first argument that is
// no option is a script. With CAPTURE set it does what torch.compile's CUDA graph trees begin with: an empty capture;
// with CUDA set it allocates something, and as CUDA=handle asks for a legacy IPC handle of it.
#include <cuda.h>
#include <string.h>

#include "check.h"

static const char* Get(const char* name) {
  const char* value = getenv(name);
  return value != NULL ? value : "-";
}

int main(void) {
  printf("%s %s\n", Get("PYTORCH_ALLOC_CONF"), Get("PYTORCH_CUDA_ALLOC_CONF"));
  fflush(stdout);
  if (getenv("CUDA") == NULL) return 0;
  CUcontext context;
  CUdeviceptr block = 0;
  CUstream stream;
  CUgraph graph;
  CHECK(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS && cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  if (strcmp(getenv("CUDA"), "handle") == 0) {
    CUipcMemHandle handle;
    CHECK(cuMemAlloc(&block, 1 << 20) == CUDA_SUCCESS && cuIpcGetMemHandle(&handle, block) == CUDA_SUCCESS);
    return 0;
  }
  CHECK(cuMemAllocAsync(&block, 1 << 20, stream) == CUDA_SUCCESS);
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
  // A capture of something is nobody's sign.
  if (strcmp(getenv("CUDA"), "empty") != 0) CHECK(cuMemsetD8Async(block, 0, 1 << 20, stream) == CUDA_SUCCESS);
  CHECK(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(block, stream) == CUDA_SUCCESS && cuStreamSynchronize(stream) == CUDA_SUCCESS);
  return 0;
}
