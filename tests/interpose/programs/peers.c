// Two devices in one process, over the simulated device, which faults on memory that a device may not access and sees
// memory that is reused too early. The first argument says what is done; with "served" as the second the requests must
// not reach the driver.
#include <cuda.h>
#include <simcuda/extensions.h>
#include <string.h>

#include "check.h"

enum { kPage = 2 << 20, kBytes = 3 * kPage };

static CUcontext contexts[2];
static CUstream streams[2];
static int served;

static void Use(int device) { CHECK(cuCtxSetCurrent(contexts[device]) == CUDA_SUCCESS); }

static CUdeviceptr Allocate(int device) {
  CUdeviceptr block = 0;
  Use(device);
  CHECK(cuMemAlloc(&block, kBytes) == CUDA_SUCCESS);
  return block;
}

static CUdeviceptr AllocateAsync(int device, size_t bytes) {
  CUdeviceptr block = 0;
  Use(device);
  CHECK(cuMemAllocAsync(&block, bytes, streams[device]) == CUDA_SUCCESS);
  return block;
}

// What a kernel of `device` that writes and reads the block comes to.
static CUresult Touch(int device, CUdeviceptr block, size_t bytes) {
  static uint64_t tag = 0;
  ++tag;
  Use(device);
  CHECK(simcudaWriteTag(streams[device], block, bytes, tag) == CUDA_SUCCESS);
  CHECK(simcudaReadTag(streams[device], block, bytes, tag) == CUDA_SUCCESS);
  return cuStreamSynchronize(streams[device]);
}

static void SetPoolAccess(int owner, int peer, CUmemAccess_flags flags) {
  CUmemoryPool pool;
  CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, peer}, flags};
  CHECK(cuDeviceGetDefaultMemPool(&pool, owner) == CUDA_SUCCESS);
  CHECK(cuMemPoolSetAccess(pool, &access, 1) == CUDA_SUCCESS);
}

// Blocks of before and of after.
static void EnableByContext(void) {
  const CUdeviceptr early = Allocate(1);
  Use(0);
  CHECK(cuCtxEnablePeerAccess(contexts[1], 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCtxEnablePeerAccess(contexts[0], 0) != CUDA_SUCCESS);
  CHECK(cuCtxEnablePeerAccess(contexts[1], 0) == CUDA_SUCCESS);
  CHECK(cuCtxEnablePeerAccess(contexts[1], 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  const CUdeviceptr late = Allocate(1);
  CHECK(Touch(0, early, kBytes) == CUDA_SUCCESS && Touch(0, late, kBytes) == CUDA_SUCCESS);
  CHECK(Touch(1, early, kBytes) == CUDA_SUCCESS && Touch(1, late, kBytes) == CUDA_SUCCESS);
  Use(1);
  CHECK(cuMemFree(early) == CUDA_SUCCESS && cuMemFree(late) == CUDA_SUCCESS);
  // Before anything is allocated on the other device.
  Use(1);
  CHECK(cuCtxEnablePeerAccess(contexts[0], 0) == CUDA_SUCCESS);
  CHECK(Touch(1, Allocate(0), kBytes) == CUDA_SUCCESS);
  Use(0);
  CHECK(cuCtxDisablePeerAccess(contexts[1]) == CUDA_SUCCESS);
  CHECK(cuCtxDisablePeerAccess(contexts[1]) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  CHECK(Touch(1, Allocate(0), kBytes) == CUDA_SUCCESS);
  CHECK(Touch(0, Allocate(1), kBytes) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void EnableByPool(void) {
  CUdeviceptr pieces[8];
  CUmemoryPool pool;
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUdeviceptr early = AllocateAsync(1, kBytes);
  SetPoolAccess(1, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(cuDeviceGetDefaultMemPool(&pool, 1) == CUDA_SUCCESS);
  CHECK(cuMemPoolGetAccess(&flags, pool, &location) == CUDA_SUCCESS && flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(Touch(0, early, kBytes) == CUDA_SUCCESS);
  CHECK(Touch(0, AllocateAsync(1, kBytes), kBytes) == CUDA_SUCCESS);
  // Served, this one is stitched together from the pages between the pieces that stay.
  for (int i = 0; i < 8; ++i) pieces[i] = AllocateAsync(1, 4 << 20);
  for (int i = 0; i < 8; i += 2) CHECK(cuMemFreeAsync(pieces[i], streams[1]) == CUDA_SUCCESS);
  const uint64_t physical = simcudaPhysicalBytes(1);
  const CUdeviceptr stitched = AllocateAsync(1, 16 << 20);
  CHECK(!served || simcudaPhysicalBytes(1) == physical);
  CHECK(Touch(1, stitched, 16 << 20) == CUDA_SUCCESS && Touch(0, stitched, 16 << 20) == CUDA_SUCCESS);
  SetPoolAccess(1, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CHECK(Touch(1, stitched, 16 << 20) == CUDA_SUCCESS);
  CHECK(Touch(0, stitched, 16 << 20) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void Refuse(void) {
  const CUdeviceptr block = Allocate(1);
  Use(0);
  CHECK(cuCtxEnablePeerAccess(contexts[1], 0) == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  CHECK(Touch(1, block, kBytes) == CUDA_SUCCESS && Touch(1, Allocate(1), kBytes) == CUDA_SUCCESS);
  CHECK(Touch(0, block, kBytes) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

// Without peer access: every call that copies, both ways.
static void CopyBetween(void) {
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

// What the block's first and last words hold, each copied by the device that it is on, or `wanted` for both.
static int Holds(int device, CUdeviceptr block, uint32_t wanted) {
  uint32_t words[2] = {~wanted, ~wanted};
  Use(device);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoH(&words[0], block, 4) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoH(&words[1], block + kBytes - 4, 4) == CUDA_SUCCESS);
  return words[0] == wanted && words[1] == wanted;
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

enum { kPitch = 512, kWidth = 100, kRows = 6, kTight = 8 };

static uint8_t At(const uint8_t* rows, int row, int byte) { return rows[row * kPitch + byte]; }

// Rows and volumes between the host and device 1's memory, by device 0. Row 0 is left alone, and what follows a row.
static void CopyRows(CUdeviceptr block, CUstream stream) {
  static uint8_t there[kRows * kPitch], back[kRows * kPitch];
  CUDA_MEMCPY2D to = {0}, from = {0};
  CUDA_MEMCPY3D volume_to = {0}, volume_from = {0};
  to.srcY = to.dstY = from.srcY = from.dstY = 1;
  to.srcMemoryType = from.dstMemoryType = CU_MEMORYTYPE_HOST;
  to.srcHost = there, from.dstHost = back;
  to.dstMemoryType = CU_MEMORYTYPE_DEVICE, from.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  to.dstDevice = from.srcDevice = block;
  to.srcPitch = to.dstPitch = from.srcPitch = from.dstPitch = kPitch;
  to.WidthInBytes = from.WidthInBytes = kWidth;
  to.Height = from.Height = kRows - 1;
  // The same rows as a volume of slices of one.
  volume_to.srcZ = volume_to.dstZ = volume_from.srcZ = volume_from.dstZ = 1;
  volume_to.srcMemoryType = volume_from.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  volume_to.srcDevice = (CUdeviceptr)there, volume_from.dstDevice = (CUdeviceptr)back;
  volume_to.dstMemoryType = volume_from.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  volume_to.dstDevice = volume_from.srcDevice = block;
  volume_to.srcPitch = volume_to.dstPitch = volume_from.srcPitch = volume_from.dstPitch = kPitch;
  volume_to.srcHeight = volume_to.dstHeight = volume_from.srcHeight = volume_from.dstHeight = 1;
  volume_to.WidthInBytes = volume_from.WidthInBytes = kWidth;
  volume_to.Height = volume_from.Height = 1;
  volume_to.Depth = volume_from.Depth = kRows - 1;
  for (int way = 0; way < 5; ++way) {
    for (int i = 0; i < kRows * kPitch; ++i) there[i] = (uint8_t)(way + i % 251), back[i] = 0;
    Use(0);
    if (way == 0) CHECK(cuMemcpy2D(&to) == CUDA_SUCCESS && cuMemcpy2D(&from) == CUDA_SUCCESS);
    if (way == 1) CHECK(cuMemcpy2DUnaligned(&to) == CUDA_SUCCESS && cuMemcpy2DUnaligned(&from) == CUDA_SUCCESS);
    if (way == 2) CHECK(cuMemcpy2DAsync(&to, stream) == CUDA_SUCCESS && cuMemcpy2DAsync(&from, stream) == CUDA_SUCCESS);
    if (way == 3) CHECK(cuMemcpy3D(&volume_to) == CUDA_SUCCESS && cuMemcpy3D(&volume_from) == CUDA_SUCCESS);
    if (way == 4) {
      CHECK(cuMemcpy3DAsync(&volume_to, stream) == CUDA_SUCCESS);
      CHECK(cuMemcpy3DAsync(&volume_from, stream) == CUDA_SUCCESS);
    }
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    for (int row = 1; row < kRows; ++row) {
      CHECK(At(back, row, 0) == At(there, row, 0) && At(back, row, kWidth - 1) == At(there, row, kWidth - 1));
      CHECK(At(back, row, kWidth) == 0);
    }
    CHECK(At(back, 0, 0) == 0);
  }
  CHECK(cuMemcpy2D(NULL) == CUDA_ERROR_INVALID_VALUE);
  // Fills, each over the first bytes of what the one before it filled, in the order of the stream and by default.
  for (int by_default = 0; by_default < 2; ++by_default) {
    const size_t height = kRows - 1;
    if (by_default) {
      CHECK(cuMemsetD2D8(block + kPitch, kPitch, 1, kTight, height) == CUDA_SUCCESS);
      CHECK(cuMemsetD2D32(block + kPitch, kPitch, 0x03030303, 1, height) == CUDA_SUCCESS);
      CHECK(cuMemsetD2D16(block + kPitch, kPitch, 0x0202, 1, height) == CUDA_SUCCESS);
      CHECK(cuMemcpy2D(&from) == CUDA_SUCCESS);
    } else {
      CHECK(cuMemsetD2D8Async(block + kPitch, kPitch, 4, kTight, height, stream) == CUDA_SUCCESS);
      CHECK(cuMemsetD2D32Async(block + kPitch, kPitch, 0x06060606, 1, height, stream) == CUDA_SUCCESS);
      CHECK(cuMemsetD2D16Async(block + kPitch, kPitch, 0x0505, 1, height, stream) == CUDA_SUCCESS);
      CHECK(cuMemcpy2DAsync(&from, stream) == CUDA_SUCCESS && cuStreamSynchronize(stream) == CUDA_SUCCESS);
    }
    const uint8_t base = by_default ? 1 : 4;
    for (int row = 1; row < kRows; ++row) {
      CHECK(At(back, row, 1) == base + 1 && At(back, row, 3) == base + 2 && At(back, row, kTight - 1) == base);
      CHECK(At(back, row, kTight) == At(there, row, kTight));
    }
  }
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

static void CopyWithTheHost(void) {
  static uint32_t pageable[kBytes / 4];
  uint32_t* pinned = NULL;
  const CUdeviceptr block = Allocate(1), other = Allocate(1);
  Allocate(0);
  CHECK(cuMemAllocHost((void**)&pinned, kBytes) == CUDA_SUCCESS);
  const CUstream by_default[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, streams[0]};
  for (size_t i = 0; i < sizeof(by_default) / sizeof(by_default[0]); ++i) {
    CopyWithHost(pageable, block, other, by_default[i]);
    CopyWithHost(pinned, block, other, by_default[i]);
    CopyRows(block, by_default[i]);
  }
  if (served) CopyThenFree(pinned);
  // Without a context there is nobody to do it.
  CHECK(cuCtxSetCurrent(NULL) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoH(pageable, block, kBytes) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuMemsetD8(block, 0, kBytes) == CUDA_ERROR_INVALID_CONTEXT);
}

// The same where the acting device may.
static void CopyWithHostAndAccess(void) {
  Use(0);
  CHECK(cuCtxEnablePeerAccess(contexts[1], 0) == CUDA_SUCCESS);
  CopyWithTheHost();
}

static int DeviceOf(CUdeviceptr block) {
  int device = -1;
  CHECK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block) == CUDA_SUCCESS);
  return device;
}

// The stream says where, whatever device is current.
static void StreamsOfOthers(void) {
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
static void FreedOnAnothersStream(void) {
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

int main(int count, char** arguments) {
  CHECK(count > 1);
  served = count > 2 && strcmp(arguments[2], "served") == 0;
  CHECK(cuInit(0) == CUDA_SUCCESS);
  for (int device = 0; device < 2; ++device) {
    CHECK(cuDevicePrimaryCtxRetain(&contexts[device], device) == CUDA_SUCCESS);
    Use(device);
    CHECK(cuStreamCreate(&streams[device], CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  }
  const struct {
    const char* name;
    void (*run)(void);
  } parts[] = {{"context", EnableByContext},
               {"pool", EnableByPool},
               {"refused", Refuse},
               {"copies", CopyBetween},
               {"streams", StreamsOfOthers},
               {"freed", FreedOnAnothersStream},
               {"host", CopyWithTheHost},
               {"host_refused", CopyWithTheHost},
               {"host_peers", CopyWithHostAndAccess}};
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); ++i) {
    if (strcmp(parts[i].name, arguments[1]) != 0) continue;
    parts[i].run();
    return 0;
  }
  return 2;
}
