// Served memory in use, over the simulated device, which sees memory that is reused too early and memory that is not
// mapped. With "served" on the command line the requests must not reach the driver; without, they must.
#include <cuda.h>
#include <simcuda/extensions.h>
#include <string.h>

#include "check.h"

enum { kBytes = 6 << 20 };

int main(int count, char** arguments) {
  const int served = count > 1 && strcmp(arguments[1], "served") == 0;
  CUcontext context;
  CUstream first, second;
  CUevent event;
  CHECK(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  CHECK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  CHECK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);

  // A producer and a consumer on two streams, ordered by an event; the block is freed on the second, and its memory
  // is wanted again on the first, which is ahead.
  for (uint64_t round = 1; round <= 50; ++round) {
    CUdeviceptr block = 0, scratch = 0;
    CHECK(cuMemAllocAsync(&block, kBytes, first) == CUDA_SUCCESS);
    CHECK(simcudaWriteTag(first, block, kBytes, round) == CUDA_SUCCESS);
    CHECK(cuEventRecord(event, first) == CUDA_SUCCESS && cuStreamWaitEvent(second, event, 0) == CUDA_SUCCESS);
    CHECK(simcudaReadTag(second, block, kBytes, round) == CUDA_SUCCESS);
    CHECK(cuMemFreeAsync(block, second) == CUDA_SUCCESS);
    CHECK(cuMemAllocAsync(&scratch, kBytes, first) == CUDA_SUCCESS);
    CHECK(simcudaWriteTag(first, scratch, kBytes, 1000 + round) == CUDA_SUCCESS);
    CHECK(simcudaReadTag(first, scratch, kBytes, 1000 + round) == CUDA_SUCCESS);
    CHECK(cuMemFreeAsync(scratch, first) == CUDA_SUCCESS);
  }
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS && simcudaCorruptions() == 0);
  CHECK(simcudaCallCount("cuMemAllocAsync") == (served ? 0 : 100));

  // Without a stream: the free waits for, or stays behind, what was queued before it on every stream.
  for (uint64_t round = 1; round <= 20; ++round) {
    CUdeviceptr block = 0;
    CHECK(cuMemAlloc(&block, kBytes) == CUDA_SUCCESS);
    CHECK(simcudaWriteTag(first, block, kBytes, round) == CUDA_SUCCESS);
    CHECK(simcudaReadTag(first, block, kBytes, round) == CUDA_SUCCESS);
    CHECK(cuMemFree(block) == CUDA_SUCCESS);
  }
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS && simcudaCorruptions() == 0);

  // While a stream captures, what is asked for on it is the graph's; on the others all goes on.
  const uint64_t before = simcudaCallCount("cuMemAllocAsync");
  CUdeviceptr in_graph = 0, beside = 0;
  CUgraph graph;
  CHECK(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  CHECK(cuMemAllocAsync(&in_graph, kBytes, first) == CUDA_SUCCESS);
  CHECK(simcudaCallCount("cuMemAllocAsync") == before + 1);
  CHECK(cuMemAllocAsync(&beside, kBytes, second) == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(in_graph, first) == CUDA_SUCCESS);
  CHECK(cuStreamEndCapture(first, &graph) == CUDA_SUCCESS);
  CHECK(simcudaCallCount("cuMemAllocAsync") == before + (served ? 1 : 2));
  CHECK(cuMemFreeAsync(beside, second) == CUDA_SUCCESS);

  // Handles that are used again.
  for (int round = 0; round < 20; ++round) {
    CUstream stream;
    CUdeviceptr block = 0;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK(cuMemAllocAsync(&block, kBytes, stream) == CUDA_SUCCESS);
    CHECK(simcudaWriteTag(stream, block, kBytes, 7) == CUDA_SUCCESS);
    CHECK(simcudaReadTag(stream, block, kBytes, 7) == CUDA_SUCCESS);
    CHECK(cuMemFreeAsync(block, stream) == CUDA_SUCCESS && cuStreamDestroy(stream) == CUDA_SUCCESS);
  }
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS && simcudaCorruptions() == 0);

  // Idle pages are given back before anyone is told that there is no memory.
  CUdeviceptr large = 0;
  size_t free_bytes = 0, total = 0;
  CHECK(cuMemGetInfo(&free_bytes, &total) == CUDA_SUCCESS && free_bytes <= total);
  CUmemAllocationProp properties = {0};
  CUmemGenericAllocationHandle handle;
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CHECK(cuMemAlloc(&large, 64 << 20) == CUDA_SUCCESS && cuMemFree(large) == CUDA_SUCCESS);
  CHECK(cuMemGetInfo(&free_bytes, NULL) == CUDA_SUCCESS);
  free_bytes -= free_bytes % (2 << 20);
  CHECK(cuMemCreate(&handle, free_bytes, &properties, 0) == CUDA_SUCCESS);
  CHECK(cuMemAlloc(&large, 64 << 20) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemRelease(handle) == CUDA_SUCCESS);
  CHECK(cuMemAlloc(&large, 64 << 20) == CUDA_SUCCESS && cuMemFree(large) == CUDA_SUCCESS);
  return 0;
}
