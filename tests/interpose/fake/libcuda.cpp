// A fake libcuda.so.1: just enough of a driver to see which functions were called and how often, and to misbehave on
// demand. It has no device; tools/simcuda has one. One process-wide lock.
//
// FAKE_CUDA_OTHER_POINTERS=1: cuGetProcAddress gives out other pointers than dlsym finds.
#include <cuda.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "fake_cuda.h"

#undef cuGetProcAddress
#undef cuStreamBeginCapture

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Fake {
  std::mutex mutex;
  std::map<std::string, long> calls;
  std::map<CUdeviceptr, std::size_t> live;
  std::set<CUstream> capturing;
  CUdeviceptr next = 0x700000000000;
  std::uint64_t used_high = 0;
  int primary_references = 0;
  int fail_next = 0;
};

Fake& It() {
  static Fake& it = *new Fake;
  return it;
}

const auto kPrimaryContext = reinterpret_cast<CUcontext>(0x1000);
const auto kDefaultPool = reinterpret_cast<CUmemoryPool>(0x2000);
const auto kOwnPool = reinterpret_cast<CUmemoryPool>(0x3000);
constexpr std::size_t kTotalBytes = std::size_t{1} << 30;
thread_local CUcontext current_context = nullptr;

void Count(const char* name) {
  const std::lock_guard lock(It().mutex);
  ++It().calls[name];
}

std::uint64_t Used() {
  std::uint64_t used = 0;
  for (const auto& [address, size] : It().live) used += size;
  return used;
}

CUresult Allocate(CUdeviceptr* address, std::size_t size) {
  if (current_context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (address == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  Fake& it = It();
  const std::lock_guard lock(it.mutex);
  if (it.fail_next > 0 || Used() + size > kTotalBytes) {
    if (it.fail_next > 0) --it.fail_next;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *address = it.next;
  it.live[it.next] = size;
  it.next += (size + 511) / 512 * 512;
  if (Used() > it.used_high) it.used_high = Used();
  return CUDA_SUCCESS;
}

CUresult Free(CUdeviceptr address) {
  const std::lock_guard lock(It().mutex);
  if (address == 0) return CUDA_SUCCESS;
  return It().live.erase(address) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

FAKE_EXPORT long FakeCudaCalls(const char* name) {
  const std::lock_guard lock(It().mutex);
  return It().calls[name];
}

FAKE_EXPORT void FakeCudaFailNext(int count) { It().fail_next = count; }

#define FAKE_COUNT Count(__func__)

FAKE_EXPORT CUresult cuInit(unsigned int) { return CUDA_SUCCESS; }
FAKE_EXPORT CUresult cuDeviceGet(CUdevice* device, int) { return *device = 0, CUDA_SUCCESS; }
FAKE_EXPORT CUresult cuDeviceGetCount(int* count) { return *count = 1, CUDA_SUCCESS; }
FAKE_EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute, CUdevice) {
  return *value = 0x7fffffff, CUDA_SUCCESS;
}
FAKE_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  ++It().primary_references;
  return *context = kPrimaryContext, CUDA_SUCCESS;
}
FAKE_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice) {
  return It().primary_references-- > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
FAKE_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice) { return It().primary_references = 0, CUDA_SUCCESS; }
FAKE_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned int* flags, int* active) {
  return *flags = 0, *active = It().primary_references > 0, CUDA_SUCCESS;
}
FAKE_EXPORT CUresult cuCtxGetCurrent(CUcontext* context) { return *context = current_context, CUDA_SUCCESS; }
FAKE_EXPORT CUresult cuCtxSetCurrent(CUcontext context) { return current_context = context, CUDA_SUCCESS; }
FAKE_EXPORT CUresult cuCtxPopCurrent(CUcontext* context) {
  return *context = std::exchange(current_context, nullptr), CUDA_SUCCESS;
}
FAKE_EXPORT CUresult cuCtxGetDevice(CUdevice* device) {
  return current_context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : (*device = 0, CUDA_SUCCESS);
}
FAKE_EXPORT CUresult cuCtxDestroy(CUcontext) { return FAKE_COUNT, CUDA_SUCCESS; }
FAKE_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode*) { return CUDA_SUCCESS; }

FAKE_EXPORT CUresult cuMemAlloc(CUdeviceptr* address, std::size_t size) { return FAKE_COUNT, Allocate(address, size); }
FAKE_EXPORT CUresult cuMemFree(CUdeviceptr address) { return FAKE_COUNT, Free(address); }
FAKE_EXPORT CUresult cuMemAllocPitch(CUdeviceptr* address, std::size_t* pitch, std::size_t width, std::size_t height,
                                     unsigned int element) {
  FAKE_COUNT;
  if (element != 4 && element != 8 && element != 16) return CUDA_ERROR_INVALID_VALUE;
  *pitch = (width + 511) / 512 * 512;
  return Allocate(address, *pitch * height);
}
#define FAKE_ASYNC(suffix)                                                                                        \
  FAKE_EXPORT CUresult cuMemAllocAsync##suffix(CUdeviceptr* address, std::size_t size, CUstream) {                \
    return FAKE_COUNT, Allocate(address, size);                                                                   \
  }                                                                                                               \
  FAKE_EXPORT CUresult cuMemAllocFromPoolAsync##suffix(CUdeviceptr* address, std::size_t size, CUmemoryPool pool, \
                                                       CUstream) {                                                \
    FAKE_COUNT;                                                                                                   \
    return pool == nullptr ? CUDA_ERROR_INVALID_VALUE : Allocate(address, size);                                  \
  }                                                                                                               \
  FAKE_EXPORT CUresult cuMemFreeAsync##suffix(CUdeviceptr address, CUstream) { return FAKE_COUNT, Free(address); }
FAKE_ASYNC()
#ifndef FAKE_CUDA_OLD  // a driver that lacks a function that has to be covered
FAKE_ASYNC(_ptsz)
#endif

FAKE_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t size, const CUmemAllocationProp*,
                                 unsigned long long) {
  return FAKE_COUNT, Allocate(handle, size);
}
FAKE_EXPORT CUresult cuMemGetInfo(std::size_t* free_bytes, std::size_t* total) {
  if (current_context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(It().mutex);
  if (free_bytes != nullptr) *free_bytes = kTotalBytes / 2;
  if (total != nullptr) *total = kTotalBytes;
  return CUDA_SUCCESS;
}
FAKE_EXPORT CUresult cuMemGetAddressRange(CUdeviceptr*, std::size_t*, CUdeviceptr) {
  return FAKE_COUNT, CUDA_ERROR_NOT_FOUND;
}
FAKE_EXPORT CUresult cuPointerGetAttribute(void*, CUpointer_attribute, CUdeviceptr) {
  return FAKE_COUNT, CUDA_ERROR_INVALID_VALUE;
}
FAKE_EXPORT CUresult cuPointerGetAttributes(unsigned int, CUpointer_attribute*, void**, CUdeviceptr) {
  return FAKE_COUNT, CUDA_SUCCESS;
}
FAKE_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle*, CUdeviceptr) { return FAKE_COUNT, CUDA_SUCCESS; }

FAKE_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice) {
  return *pool = kDefaultPool, CUDA_SUCCESS;
}
FAKE_EXPORT CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps*) {
  return *pool = kOwnPool, CUDA_SUCCESS;
}
FAKE_EXPORT CUresult cuDeviceSetMemPool(CUdevice, CUmemoryPool) { return CUDA_SUCCESS; }
FAKE_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool, CUmemPool_attribute, void* value) {
  *static_cast<cuuint64_t*>(value) = 1;
  return CUDA_SUCCESS;
}
FAKE_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) { return CUDA_SUCCESS; }
FAKE_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool, std::size_t) { return CUDA_SUCCESS; }

FAKE_EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned int) {
  return *stream = reinterpret_cast<CUstream>(std::malloc(1)), CUDA_SUCCESS;
}
FAKE_EXPORT CUresult cuStreamDestroy(CUstream stream) { return std::free(stream), CUDA_SUCCESS; }
FAKE_EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode) {
  return It().capturing.insert(stream).second ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
}
FAKE_EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  if (graph == nullptr) return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;  // the capture goes on
  *graph = nullptr;
  return It().capturing.erase(stream) != 0 ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
}
FAKE_EXPORT CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  *status = It().capturing.count(stream) != 0 ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
FAKE_EXPORT CUresult cuEventCreate(CUevent* event, unsigned int) {
  return *event = reinterpret_cast<CUevent>(0x4000), CUDA_SUCCESS;
}
FAKE_EXPORT CUresult cuEventDestroy(CUevent) { return CUDA_SUCCESS; }
FAKE_EXPORT CUresult cuEventRecord(CUevent event, CUstream) {
  return event != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
FAKE_EXPORT CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) { return cuEventRecord(event, stream); }
FAKE_EXPORT CUresult cuStreamWaitEvent(CUstream, CUevent event, unsigned int) {
  return event != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
FAKE_EXPORT CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags) {
  return cuStreamWaitEvent(stream, event, flags);
}

FAKE_EXPORT CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags);
FAKE_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                                         CUdriverProcAddressQueryResult* status);

namespace {

// A function of its own address that does the same, as a driver may give out.
CUresult OtherMemAlloc(CUdeviceptr* address, std::size_t size) { return cuMemAlloc(address, size); }

struct Row {
  const char* base;
  int version;
  bool per_thread;
  void* function;
};

#define FAKE_ROW(base, version, per_thread, function) \
  { #base, version, per_thread, reinterpret_cast < void*>(&function) }
const Row kRows[] = {
    FAKE_ROW(cuInit, 2000, false, cuInit),
    FAKE_ROW(cuDevicePrimaryCtxRetain, 7000, false, cuDevicePrimaryCtxRetain),
    FAKE_ROW(cuDevicePrimaryCtxReset, 11000, false, cuDevicePrimaryCtxReset),
    FAKE_ROW(cuCtxGetCurrent, 4000, false, cuCtxGetCurrent),
    FAKE_ROW(cuCtxSetCurrent, 4000, false, cuCtxSetCurrent),
    FAKE_ROW(cuMemAlloc, 3020, false, cuMemAlloc),
    FAKE_ROW(cuMemFree, 3020, false, cuMemFree),
    FAKE_ROW(cuMemAllocPitch, 3020, false, cuMemAllocPitch),
    FAKE_ROW(cuMemGetInfo, 3020, false, cuMemGetInfo),
    FAKE_ROW(cuMemAllocAsync, 11020, false, cuMemAllocAsync),
    FAKE_ROW(cuMemAllocFromPoolAsync, 11020, false, cuMemAllocFromPoolAsync),
    FAKE_ROW(cuMemFreeAsync, 11020, false, cuMemFreeAsync),
#ifndef FAKE_CUDA_OLD
    FAKE_ROW(cuMemAllocAsync, 11020, true, cuMemAllocAsync_ptsz),
    FAKE_ROW(cuMemAllocFromPoolAsync, 11020, true, cuMemAllocFromPoolAsync_ptsz),
    FAKE_ROW(cuMemFreeAsync, 11020, true, cuMemFreeAsync_ptsz),
#endif
    FAKE_ROW(cuIpcGetMemHandle, 4010, false, cuIpcGetMemHandle),
    FAKE_ROW(cuGetProcAddress, 11030, false, cuGetProcAddress),
    FAKE_ROW(cuGetProcAddress, 12000, false, cuGetProcAddress_v2),
};

void* Resolve(const char* symbol, int version, cuuint64_t flags) {
  const char* other = std::getenv("FAKE_CUDA_OTHER_POINTERS");
  if (other != nullptr && std::strcmp(symbol, "cuMemAlloc") == 0 && version >= 3020) {
    return reinterpret_cast<void*>(&OtherMemAlloc);
  }
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const Row* best = nullptr;
  for (const Row& row : kRows) {
    if (std::strcmp(row.base, symbol) != 0 || row.version > version || (row.per_thread && !per_thread)) continue;
    if (best == nullptr || row.version > best->version || row.per_thread) best = &row;
  }
  return best != nullptr ? best->function : nullptr;
}

}  // namespace

CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *function = Resolve(symbol, version, flags);
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  const CUresult result = cuGetProcAddress(symbol, function, version, flags);
  if (status != nullptr) {
    *status = result == CUDA_SUCCESS ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return result;
}
