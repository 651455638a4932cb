// Captures that nobody ends: their stream is destroyed, or its context is, while they go on. What is asked for without
// a stream afterwards is asked for beside no capture.
#include <cuda.h>
#include <simcuda/extensions.h>

#include "check.h"

enum { kBytes = 3 << 20 };

static CUstream Capturing(void) {
  CUstream stream = NULL;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  return stream;
}

static void AllocateAndFree(void) {
  CUdeviceptr block = 0;
  CHECK(cuMemAlloc(&block, kBytes) == CUDA_SUCCESS && cuMemFree(block) == CUDA_SUCCESS);
}

static void StreamsThatEnd(void) {
  CHECK(cuStreamDestroy(Capturing()) == CUDA_SUCCESS);
  AllocateAndFree();
  // One that has joined the capture ends alone: the capture goes on.
  CUstream origin = Capturing(), side = NULL;
  CUevent fork = NULL;
  CHECK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS && cuEventCreate(&fork, 0) == CUDA_SUCCESS);
  CHECK(cuEventRecord(fork, origin) == CUDA_SUCCESS && cuStreamWaitEvent(side, fork, 0) == CUDA_SUCCESS);
  CHECK(cuStreamDestroy(side) == CUDA_SUCCESS);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CHECK(cuStreamIsCapturing(origin, &status) == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(cuStreamDestroy(origin) == CUDA_SUCCESS);
  AllocateAndFree();
}

static void ContextsThatEnd(CUcontext primary) {
  CUcontext made = NULL;
  CHECK(cuCtxCreate(&made, NULL, 0, 0) == CUDA_SUCCESS);
  AllocateAndFree();
  Capturing();
  CHECK(cuCtxDestroy(made) == CUDA_SUCCESS && cuCtxSetCurrent(primary) == CUDA_SUCCESS);
  AllocateAndFree();
  // The driver refuses once: until it does not, the capture goes on, if broken by whoever waited for the context's work.
  CUgraph graph = NULL;
  const CUstream stream = Capturing();
  CHECK(simcudaFailNext("cuDevicePrimaryCtxReset", 1, CUDA_ERROR_UNKNOWN) == 1);
  CHECK(cuDevicePrimaryCtxReset(0) == CUDA_ERROR_UNKNOWN);
  const CUresult ended = cuStreamEndCapture(stream, &graph);
  CHECK(ended == CUDA_SUCCESS || ended == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  AllocateAndFree();
  Capturing();
  CHECK(cuDevicePrimaryCtxReset(0) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRetain(&primary, 0) == CUDA_SUCCESS && cuCtxSetCurrent(primary) == CUDA_SUCCESS);
  AllocateAndFree();
}

int main(void) {
  CUcontext primary = NULL;
  CHECK(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&primary, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(primary) == CUDA_SUCCESS);
  AllocateAndFree();
  StreamsThatEnd();
  ContextsThatEnd(primary);
  return 0;
}
