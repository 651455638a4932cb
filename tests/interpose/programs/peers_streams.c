// Requests and frees in the order of another device's stream.
#include "peers.h"

static int DeviceOf(CUdeviceptr block) {
  int device = -1;
  CHECK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block) == CUDA_SUCCESS);
  return device;
}

// The stream says where, whatever device is current.
void StreamsOfOthers(void) {
  CUmemoryPool pools[2];
  CUdeviceptr block = 0, other = 0;
  for (int device = 0; device < 2; ++device) {
    CHECK(cuDeviceGetDefaultMemPool(&pools[device], device) == CUDA_SUCCESS);
    CHECK(Touch(device, AllocateAsync(device, kBytes), kBytes) == CUDA_SUCCESS);
  }
  for (int current = 0; current < 2; ++current) {
    for (int device = 0; device < 2; ++device) {
      Use(current);
      CHECK(cuMemAllocAsync(&block, kBytes, streams[device]) == CUDA_SUCCESS);
      CHECK(cuMemAllocFromPoolAsync(&other, kBytes, pools[device], streams[device]) == CUDA_SUCCESS);
      CHECK(DeviceOf(block) == device && DeviceOf(other) == device);
      CHECK(Touch(device, block, kBytes) == CUDA_SUCCESS && Touch(device, other, kBytes) == CUDA_SUCCESS);
      Use(current);
      CHECK(cuMemFreeAsync(block, streams[device]) == CUDA_SUCCESS);
      CHECK(cuMemFreeAsync(other, streams[device]) == CUDA_SUCCESS);
    }
  }
  CHECK(!served || simcudaCallCount("cuMemAllocAsync") + simcudaCallCount("cuMemAllocFromPoolAsync") == 0);
  // A pool of the one and a stream of the other: the memory is the pool's.
  Use(0);
  CHECK(cuMemAllocFromPoolAsync(&block, kBytes, pools[1], streams[0]) == CUDA_SUCCESS && DeviceOf(block) == 1);
  CHECK(cuMemFreeAsync(block, streams[0]) == CUDA_SUCCESS);
  // A handle that comes back as another device's stream.
  for (int round = 0; round < 6; ++round) {
    CUstream stream;
    Use(round % 2);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK(cuMemAllocAsync(&block, kBytes, stream) == CUDA_SUCCESS && DeviceOf(block) == round % 2);
    CHECK(simcudaWriteTag(stream, block, kBytes, 5) == CUDA_SUCCESS && cuStreamSynchronize(stream) == CUDA_SUCCESS);
    CHECK(cuMemFreeAsync(block, stream) == CUDA_SUCCESS && cuStreamDestroy(stream) == CUDA_SUCCESS);
  }
}

// A block of one device that is read on a stream of the other and freed there, named or by default.
void FreedOnAnothersStream(void) {
  Use(0);
  CHECK(cuCtxEnablePeerAccess(contexts[1], 0) == CUDA_SUCCESS);
  SetPoolAccess(1, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  for (uint64_t tag = 1; tag <= 20; ++tag) {
    CUdeviceptr block = AllocateAsync(1, kBytes), next;
    CHECK(simcudaWriteTag(streams[1], block, kBytes, tag) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(streams[1]) == CUDA_SUCCESS);
    Use(0);
    const CUstream reader = tag % 2 == 0 ? streams[0] : CU_STREAM_LEGACY;
    CHECK(simcudaReadTag(reader, block, kBytes, tag) == CUDA_SUCCESS);
    CHECK(cuMemFreeAsync(block, reader) == CUDA_SUCCESS);
    CHECK(cuMemFreeAsync(block, reader) == CUDA_ERROR_INVALID_VALUE);
    next = AllocateAsync(1, kBytes);
    CHECK(simcudaWriteTag(streams[1], next, kBytes, 1000 + tag) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(streams[1]) == CUDA_SUCCESS);
    CHECK(cuMemFreeAsync(next, streams[1]) == CUDA_SUCCESS);
  }
  for (int device = 0; device < 2; ++device) {
    Use(device);
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  }
  CHECK(simcudaCorruptions() == 0);
}
