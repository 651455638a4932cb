// Frees while a stream captures: what CUDA refuses is refused, and what it lets pass passes. A block whose free was
// refused is still there.
#include <cuda.h>
#include <pthread.h>

#include "check.h"

enum { kBytes = 3 << 20 };

static CUcontext context;
static CUstream capturing, other;

static CUdeviceptr Allocate(int async) {
  CUdeviceptr block = 0;
  CHECK((async ? cuMemAllocAsync(&block, kBytes, other) : cuMemAlloc(&block, kBytes)) == CUDA_SUCCESS);
  return block;
}

// Of a thread that captures nothing itself.
static CUresult elsewhere;
static void* FreeElsewhere(void* block) {
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  elsewhere = cuMemFree((CUdeviceptr)block);
  return NULL;
}

static void WithoutStream(CUstreamCaptureMode mode, CUresult inside, CUresult ended, CUresult other_thread,
                          CUresult other_ended) {
  CUgraph graph;
  CUdeviceptr block = Allocate(0);
  CHECK(cuStreamBeginCapture(capturing, mode) == CUDA_SUCCESS);
  CHECK(cuMemFree(block) == inside);
  CHECK(cuStreamEndCapture(capturing, &graph) == ended);
  CHECK(cuMemFree(block) == (inside == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS));

  pthread_t thread;
  block = Allocate(0);
  CHECK(cuStreamBeginCapture(capturing, mode) == CUDA_SUCCESS);
  CHECK(pthread_create(&thread, NULL, FreeElsewhere, (void*)block) == 0 && pthread_join(thread, NULL) == 0);
  CHECK(elsewhere == other_thread);
  CHECK(cuStreamEndCapture(capturing, &graph) == other_ended);
  CHECK(cuMemFree(block) == (elsewhere == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS));
}

static void InStreamOrder(CUstreamCaptureMode mode) {
  CUgraph graph;
  size_t nodes = 0;
  CUdeviceptr inner = 0, block = Allocate(1), second = Allocate(1);
  CHECK(cuStreamBeginCapture(capturing, mode) == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(block, capturing) == CUDA_ERROR_INVALID_VALUE);  // no memory of the graph
  CHECK(cuMemFreeAsync(second, other) == CUDA_SUCCESS);
  CHECK(cuMemAllocAsync(&inner, kBytes, capturing) == CUDA_SUCCESS && cuMemFreeAsync(inner, capturing) == CUDA_SUCCESS);
  CHECK(cuStreamEndCapture(capturing, &graph) == CUDA_SUCCESS);
  CHECK(cuGraphGetNodes(graph, NULL, &nodes) == CUDA_SUCCESS && nodes == 2);
  CHECK(cuMemFreeAsync(block, other) == CUDA_SUCCESS && cuMemFreeAsync(second, other) == CUDA_ERROR_INVALID_VALUE);
}

int main(void) {
  CHECK(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  for (unsigned flags = 0; flags < 2; ++flags) {  // CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING
    CHECK(cuStreamCreate(&capturing, flags) == CUDA_SUCCESS);
    WithoutStream(CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    WithoutStream(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUDA_SUCCESS, CUDA_SUCCESS);
    WithoutStream(CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_SUCCESS, CUDA_SUCCESS, CUDA_SUCCESS, CUDA_SUCCESS);
    InStreamOrder(CU_STREAM_CAPTURE_MODE_GLOBAL);
    InStreamOrder(CU_STREAM_CAPTURE_MODE_RELAXED);
    CHECK(cuStreamDestroy(capturing) == CUDA_SUCCESS);
  }
  return 0;
}
