// Streams, events, captures and contexts, for the counts in the double's log.
#include <cuda.h>

#include "check.h"

int main(void) {
  CUcontext context;
  CUstream stream;
  CUevent event;
  CUgraph graph;
  CUdeviceptr p;
  CHECK(cuInit(0) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS && cuCtxSetCurrent(context) == CUDA_SUCCESS);
  CHECK(cuStreamCreate(&stream, 0) == CUDA_SUCCESS && cuEventCreate(&event, 0) == CUDA_SUCCESS);

  // The first thing that the allocator hears of is a capture: it must not miss it.
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(cuStreamEndCapture(stream, NULL) == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);  // goes on
  CHECK(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
  CHECK(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_ILLEGAL_STATE);

  CHECK(cuEventRecord(event, stream) == CUDA_SUCCESS && cuEventRecord(NULL, stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuEventRecord(event, 0) == CUDA_SUCCESS);
  CHECK(cuStreamWaitEvent(stream, event, 0) == CUDA_SUCCESS && cuStreamWaitEvent(stream, NULL, 0) != CUDA_SUCCESS);

  CHECK(cuEventDestroy(event) == CUDA_SUCCESS);

  CHECK(cuMemAllocAsync(&p, 1000, stream) == CUDA_SUCCESS && cuMemFreeAsync(p, CU_STREAM_LEGACY) == CUDA_SUCCESS);
  CHECK(cuMemAllocAsync(&p, 1000, CU_STREAM_PER_THREAD) == CUDA_SUCCESS && cuMemFreeAsync(p, 0) == CUDA_SUCCESS);
  CHECK(cuStreamDestroy(stream) == CUDA_SUCCESS);

  CUcontext again;
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);  // nothing of interest
  CHECK(cuCtxSetCurrent(NULL) == CUDA_SUCCESS);     // context.left
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  CHECK(cuCtxPopCurrent(&again) == CUDA_SUCCESS && again == context);  // context.left
  CHECK(cuDevicePrimaryCtxRetain(&again, 0) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);  // not the last
  CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);  // the last: context.destroyed
  CHECK(cuDevicePrimaryCtxRetain(&again, 0) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxReset(0) == CUDA_SUCCESS);       // context.destroyed
  CHECK(cuDevicePrimaryCtxReset(0) == CUDA_SUCCESS);       // there is none any more
  CHECK(cuCtxDestroy((CUcontext)0x5000) == CUDA_SUCCESS);  // context.destroyed
  return 0;
}
