// The rest of the runtime library's functions that have to do with memory, in the order in which a framework uses them.
// Holds with and without the shim.
#include <cuda_runtime_api.h>
#include <stdint.h>

#include "check.h"

static uint64_t Pool(cudaMemPool_t pool, enum cudaMemPoolAttr attribute) {
  uint64_t value = ~(uint64_t)0;
  CHECK(cudaMemPoolGetAttribute(pool, attribute, &value) == cudaSuccess);
  return value;
}

int main(void) {
  enum { kMiB = 1 << 20 };
  size_t free_before = 0, free_after = 0, total = 0, pitch = 0;
  void* blocks[3];
  void* p = NULL;
  cudaMemPool_t pool;
  cudaStream_t stream;
  CHECK(cudaSetDevice(0) == cudaSuccess && cudaMemGetInfo(&free_before, &total) == cudaSuccess);
  CHECK(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess);
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  uint64_t everything = ~(uint64_t)0, zero = 0;
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &everything) == cudaSuccess);
  CHECK(Pool(pool, cudaMemPoolAttrReleaseThreshold) == everything);

  // Counters.
  CHECK(Pool(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
  for (int i = 0; i < 3; ++i) CHECK(cudaMallocAsync(&blocks[i], 10 * kMiB, stream) == cudaSuccess);
  CHECK(Pool(pool, cudaMemPoolAttrUsedMemCurrent) == 30 * kMiB);
  CHECK(Pool(pool, cudaMemPoolAttrReservedMemCurrent) >= 30 * kMiB);
  CHECK(cudaFreeAsync(blocks[2], stream) == cudaSuccess && cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(Pool(pool, cudaMemPoolAttrUsedMemCurrent) == 20 * kMiB);
  CHECK(Pool(pool, cudaMemPoolAttrUsedMemHigh) == 30 * kMiB);
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero) == cudaSuccess);
  CHECK(Pool(pool, cudaMemPoolAttrUsedMemHigh) == 20 * kMiB);

  // An address inside a block.
  struct cudaPointerAttributes attributes;
  CHECK(cudaPointerGetAttributes(&attributes, (char*)blocks[0] + 100) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeDevice && attributes.device == 0);
  CHECK(attributes.devicePointer == (char*)blocks[0] + 100);
  CHECK(cudaMemsetAsync(blocks[0], 1, 10 * kMiB, stream) == cudaSuccess);
  cudaIpcMemHandle_t handle;
  CHECK(cudaIpcGetMemHandle(&handle, blocks[0]) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);

  for (int i = 0; i < 2; ++i) CHECK(cudaFreeAsync(blocks[i], stream) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  for (int i = 0; i < 2; ++i) CHECK(cudaMemPoolTrimTo(pool, 0) == cudaSuccess);  // once: see trim.c
  CHECK(Pool(pool, cudaMemPoolAttrUsedMemCurrent) == 0 && Pool(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
  CHECK(cudaMemGetInfo(&free_after, NULL) == cudaSuccess && free_after == free_before);

  // Rows and boxes.
  struct cudaExtent extent = {1000, 10, 3};
  struct cudaPitchedPtr box;
  CHECK(cudaMallocPitch(&p, &pitch, 1000, 10) == cudaSuccess && pitch >= 1000 && pitch % 512 == 0);
  CHECK(cudaMemsetAsync(p, 0, pitch * 10, stream) == cudaSuccess && cudaFree(p) == cudaSuccess);
  CHECK(cudaMallocPitch(&p, NULL, 1000, 10) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaMalloc3D(&box, extent) == cudaSuccess && box.pitch == pitch);
  CHECK(cudaMemsetAsync(box.ptr, 0, box.pitch * 30, stream) == cudaSuccess && cudaFree(box.ptr) == cudaSuccess);

  // Pools by name; alignment.
  CHECK(cudaMallocFromPoolAsync(&p, 3 * kMiB, pool, stream) == cudaSuccess && (uintptr_t)p % 512 == 0);
  CHECK(cudaFreeAsync(p, stream) == cudaSuccess);
  CHECK(cudaMallocFromPoolAsync(&p, 3 * kMiB, NULL, stream) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);

  // Capture: what is asked for while a stream captures belongs to the graph.
  cudaGraph_t graph;
  size_t nodes = 0;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(cudaMallocAsync(&p, kMiB, stream) == cudaSuccess && cudaFreeAsync(p, stream) == cudaSuccess);
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  CHECK(cudaGraphGetNodes(graph, NULL, &nodes) == cudaSuccess && nodes == 2);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaMallocAsync(&p, kMiB, stream) == cudaSuccess && cudaFreeAsync(p, stream) == cudaSuccess);

  // The device begins anew.
  CHECK(cudaMalloc(&p, kMiB) == cudaSuccess && cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(cudaDeviceReset() == cudaSuccess);
  CHECK(cudaMalloc(&p, kMiB) == cudaSuccess && cudaMemset(p, 0, kMiB) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess && cudaFree(p) == cudaSuccess);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  return 0;
}
