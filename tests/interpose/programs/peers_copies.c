// Copies and fills without peer access: between two devices, and with the host.
#include "peers.h"

// Without peer access: every call that copies, both ways.
void CopyBetween(void) {
  const CUdeviceptr from = Allocate(0), to = Allocate(1);
  for (uint64_t tag = 1; tag <= 6; ++tag) {
    Use(0);
    CHECK(simcudaWriteTag(streams[0], from, kBytes, tag) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(streams[0]) == CUDA_SUCCESS);
    if (tag == 1) CHECK(cuMemcpyPeerAsync(to, contexts[1], from, contexts[0], kBytes, streams[0]) == CUDA_SUCCESS);
    if (tag == 2) CHECK(cuMemcpyPeer(to, contexts[1], from, contexts[0], kBytes) == CUDA_SUCCESS);
    if (tag == 3) CHECK(cuMemcpyDtoDAsync(to, from, kBytes, streams[0]) == CUDA_SUCCESS);
    if (tag == 4) CHECK(cuMemcpyAsync(to, from, kBytes, streams[0]) == CUDA_SUCCESS);
    if (tag == 5) CHECK(cuMemcpyDtoD(to, from, kBytes) == CUDA_SUCCESS);
    if (tag == 6) CHECK(cuMemcpy(to, from, kBytes) == CUDA_SUCCESS);
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    Use(1);
    CHECK(simcudaReadTag(streams[1], to, kBytes, tag) == CUDA_SUCCESS);
    CHECK(cuMemcpyDtoDAsync(from, to, kBytes, streams[1]) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(streams[1]) == CUDA_SUCCESS);
  }
  CHECK(simcudaCorruptions() == 0);
}

static uint32_t* Fresh(uint32_t* host, uint32_t word) {
  for (size_t i = 0; i < kBytes / 4; ++i) host[i] = word;
  return host;
}

// Device 0 acts, by its streams and by default, on memory of device 1 and the host's.
static void CopyWithHost(uint32_t* host, CUdeviceptr block, CUdeviceptr other, CUstream stream) {
  static uint32_t word = 0;
  const CUdeviceptr unified = (CUdeviceptr)host;
  Use(0);
  // Each way there, and each way back.
  for (int way = 0; way < 4; ++way) {
    ++word;
    Fresh(host, word);
    if (way == 0) CHECK(cuMemcpyHtoD(block, host, kBytes) == CUDA_SUCCESS);
    if (way == 1) CHECK(cuMemcpy(block, unified, kBytes) == CUDA_SUCCESS);
    if (way == 2) CHECK(cuMemcpyHtoDAsync(block, host, kBytes, stream) == CUDA_SUCCESS);
    if (way == 3) CHECK(cuMemcpyAsync(block, unified, kBytes, stream) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    Fresh(host, 0);
    if (way == 0) CHECK(cuMemcpyDtoH(host, block, kBytes) == CUDA_SUCCESS);
    if (way == 1) CHECK(cuMemcpy(unified, block, kBytes) == CUDA_SUCCESS);
    if (way == 2) CHECK(cuMemcpyDtoHAsync(host, block, kBytes, stream) == CUDA_SUCCESS);
    if (way == 3) CHECK(cuMemcpyAsync(unified, block, kBytes, stream) == CUDA_SUCCESS);
    if (way >= 2) CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    CHECK(host[0] == word && host[kBytes / 4 - 1] == word);
    CHECK(Holds(1, block, word));
    Use(0);
  }
  // In the stream's order: each copy must find what the one before it left.
  CHECK(cuMemsetD32Async(block, 0xaaaaaaaa, kBytes / 4, stream) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoDAsync(other, block, kBytes, stream) == CUDA_SUCCESS);
  CHECK(cuMemsetD16Async(block, 0x5555, kBytes / 2, stream) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoHAsync(host, other, kBytes, stream) == CUDA_SUCCESS);
  CHECK(cuMemsetD8Async(other, 0x77, kBytes, stream) == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(host[0] == 0xaaaaaaaa && Holds(1, block, 0x55555555) && Holds(1, other, 0x77777777));
  // By default: these do not wait for the device, but what comes next by default does.
  Use(0);
  CHECK(cuMemsetD8(block, 0x11, kBytes) == CUDA_SUCCESS && cuMemcpyDtoD(other, block, kBytes) == CUDA_SUCCESS);
  CHECK(cuMemsetD16(block, 0x2222, kBytes / 2) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoH(host, block, kBytes) == CUDA_SUCCESS && host[0] == 0x22222222);
  CHECK(cuMemsetD32(block, 0x33333333, kBytes / 4) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoH(host, other, kBytes) == CUDA_SUCCESS && host[0] == 0x11111111);
  CHECK(Holds(1, block, 0x33333333));
  // On the stream of the memory's own device, which is not current.
  Use(0);
  CHECK(cuMemsetD32Async(block, 0x44444444, kBytes / 4, streams[1]) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoHAsync(host, block, kBytes, streams[1]) == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(streams[1]) == CUDA_SUCCESS && host[0] == 0x44444444);
  // The other way about: its device is current, the stream is another's.
  Use(1);
  CHECK(cuMemsetD32Async(block, 0x66666666, kBytes / 4, streams[0]) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoHAsync(host, block, kBytes, streams[0]) == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(streams[0]) == CUDA_SUCCESS && host[0] == 0x66666666);
  // Nothing is left behind: the current context is the program's.
  CUcontext current = NULL;
  CHECK(cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == contexts[1]);
}

// Freed where it was read, and at once written by its own device.
static void CopyThenFree(uint32_t* host) {
  for (uint32_t word = 1; word <= 20; ++word) {
    CUdeviceptr block = AllocateAsync(1, kBytes), next;
    CHECK(cuMemsetD32Async(block, word, kBytes / 4, streams[1]) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(streams[1]) == CUDA_SUCCESS);
    Use(0);
    CHECK(cuMemcpyDtoHAsync(host, block, kBytes, streams[0]) == CUDA_SUCCESS);
    CHECK(cuMemFreeAsync(block, streams[0]) == CUDA_SUCCESS);
    next = AllocateAsync(1, kBytes);
    CHECK(cuMemsetD32Async(next, 1000, kBytes / 4, streams[1]) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(streams[1]) == CUDA_SUCCESS && cuStreamSynchronize(streams[0]) == CUDA_SUCCESS);
    CHECK(host[0] == word && host[kBytes / 4 - 1] == word);
    CHECK(cuMemFreeAsync(next, streams[1]) == CUDA_SUCCESS);
  }
}

void CopyWithTheHost(void) {
  static uint32_t pageable[kBytes / 4];
  uint32_t* pinned = NULL;
  const CUdeviceptr block = Allocate(1), other = Allocate(1);
  Allocate(0);
  CHECK(cuMemAllocHost((void**)&pinned, kBytes) == CUDA_SUCCESS);
  const CUstream by_default[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, streams[0]};
  for (size_t i = 0; i < sizeof(by_default) / sizeof(by_default[0]); ++i) {
    CopyWithHost(pageable, block, other, by_default[i]);
    CopyWithHost(pinned, block, other, by_default[i]);
    CopyRowsWithHost(block, by_default[i]);
  }
  if (served) CopyThenFree(pinned);
  // Without a context there is nobody to do it.
  CHECK(cuCtxSetCurrent(NULL) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoH(pageable, block, kBytes) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuMemsetD8(block, 0, kBytes) == CUDA_ERROR_INVALID_CONTEXT);
}

// The same where the acting device may.
void CopyWithHostAndAccess(void) {
  Use(0);
  CHECK(cuCtxEnablePeerAccess(contexts[1], 0) == CUDA_SUCCESS);
  CopyWithTheHost();
}
