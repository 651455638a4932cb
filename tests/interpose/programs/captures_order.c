// What is captured does not happen, nor does its order: a stream that waits, in a capture, for an event that another
// has recorded there waits for nothing of what that one still does, neither then nor afterwards.
//
// Under SIMCUDA_SEED=0 nothing executes before it is waited for.
#include <cuda.h>
#include <simcuda/extensions.h>

#include "check.h"

enum { kBytes = 6 << 20 };

static CUstream first, second;

static CUdeviceptr Allocate(CUstream stream) {
  CUdeviceptr block = 0;
  CHECK(cuMemAllocAsync(&block, kBytes, stream) == CUDA_SUCCESS);
  return block;
}

// Both streams take part, and the first captures again.
static void Capture(CUstreamCaptureMode mode, CUevent fork, CUevent join) {
  CUgraph graph = NULL;
  CHECK(cuStreamBeginCapture(first, mode) == CUDA_SUCCESS);
  CHECK(cuEventRecord(fork, first) == CUDA_SUCCESS && cuStreamWaitEvent(second, fork, 0) == CUDA_SUCCESS);
  CHECK(cuEventRecord(join, second) == CUDA_SUCCESS && cuStreamWaitEvent(first, join, 0) == CUDA_SUCCESS);
  CHECK(cuStreamEndCapture(first, &graph) == CUDA_SUCCESS && cuGraphDestroy(graph) == CUDA_SUCCESS);
}

// A block that `from` still reads when it is freed there; and `to` writes over what it gets.
static void Overwrite(CUstream from, CUstream to, CUstreamCaptureMode mode) {
  static uint64_t tag = 0;
  CUevent fork = NULL, join = NULL;
  CHECK(cuEventCreate(&fork, 0) == CUDA_SUCCESS && cuEventCreate(&join, 0) == CUDA_SUCCESS);
  const CUdeviceptr block = Allocate(from);
  ++tag;
  CHECK(simcudaWriteTag(from, block, kBytes, tag) == CUDA_SUCCESS && cuStreamSynchronize(from) == CUDA_SUCCESS);
  for (int i = 0; i < 32; ++i) CHECK(simcudaReadTag(from, block, kBytes, tag) == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(block, from) == CUDA_SUCCESS);
  Capture(mode, fork, join);
  const CUdeviceptr next = Allocate(to);
  CHECK(simcudaWriteTag(to, next, kBytes, ++tag) == CUDA_SUCCESS && cuStreamSynchronize(to) == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(next, to) == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(simcudaCorruptions() == 0);
}

int main(void) {
  CUcontext context = NULL;
  CHECK(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  CHECK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  CHECK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(Allocate(first), first) == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(Allocate(second), second) == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS);
  for (CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL; mode <= CU_STREAM_CAPTURE_MODE_RELAXED; ++mode) {
    Overwrite(first, second, mode);
    Overwrite(second, first, mode);
  }
  return 0;
}
