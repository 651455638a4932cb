// A driver made of bookkeeping alone, for tests of the memory code: it knows which work is ordered before which, so
// that a test can say of every use of memory whether the last one before it was over.
//
// Streams lag: what is submitted executes when the test says so. Happens-before is followed with vector clocks over
// events and synchronisation. Any call can be made to fail. Single-threaded use, but for the counters.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/driver_api.h"

namespace stalloc::runtime::model {

inline constexpr std::size_t kPage = std::size_t{2} << 20;
using Clock = std::map<CUstream, std::uint64_t>;

struct Device {
  std::size_t total_bytes = std::size_t{4} << 30;
  std::size_t used_bytes = 0;
  CUdeviceptr next_address = 0x300000000000;
  std::uint64_t next_handle = 1;
  std::map<std::uint64_t, int> handles;         // handle -> mappings
  std::map<CUdeviceptr, std::uint64_t> mapped;  // page address -> handle
  std::map<CUdeviceptr, bool> accessible;
  std::map<CUstream, std::uint64_t> submitted;
  std::map<CUstream, std::uint64_t> executed;
  std::map<CUstream, Clock> clocks;  // what a stream's next work is ordered behind
  struct Event {
    Clock clock;  // the work it stands behind, all of it
  };
  std::map<CUevent, Event> events;
  std::uint64_t next_event = 1;
  float elapsed_ms = 0.0F;  // between any two events
  std::map<std::string, std::uint64_t> calls;
  std::string fail_function;        // this function fails ...
  std::uint64_t fail_at = 0;        // ... at its nth call (1 is the first)
  std::vector<std::string> errors;  // what a correct allocator never does

  // A use of memory: `bytes` at `address` by the next work on `stream`.
  struct Use {
    CUstream stream;
    std::uint64_t index;
    std::uint64_t block;
    std::size_t begin, end;  // in the page
  };
  std::map<std::uint64_t, std::vector<Use>> uses;  // by handle

  // Runs some of a stream's work, and before it whatever that work waits for.
  void Execute(CUstream stream, std::uint64_t count) {
    Reach(clocks[stream]);
    executed[stream] = std::min(submitted[stream], executed[stream] + count);
  }
  void Reach(const Clock& clock) {
    for (const auto& [stream, index] : clock) executed[stream] = std::max(executed[stream], index);
  }
  bool Reached(const Clock& clock) {
    return std::all_of(clock.begin(), clock.end(), [&](const auto& at) { return executed[at.first] >= at.second; });
  }
  void ExecuteAll() { executed = submitted; }

  void Touch(CUstream stream, CUdeviceptr address, std::size_t bytes, std::uint64_t block) {
    const std::uint64_t index = ++submitted[stream];
    for (CUdeviceptr page = address / kPage * kPage; page < address + bytes; page += kPage) {
      const auto found = mapped.find(page);
      if (found == mapped.end() || !accessible[page]) {
        errors.push_back("block " + std::to_string(block) + " touches a page that is not mapped");
        continue;
      }
      const std::size_t begin = std::max(page, address) - page;
      const std::size_t end = std::min(page + kPage, address + bytes) - page;
      auto& list = uses[found->second];
      for (const Use& use : list) {
        if (use.block == block || use.end <= begin || end <= use.begin) continue;
        const bool before = use.stream == stream || executed[use.stream] >= use.index ||
                            (clocks[stream].count(use.stream) && clocks[stream][use.stream] >= use.index);
        if (!before)
          errors.push_back("block " + std::to_string(block) + " uses memory before block " + std::to_string(use.block) +
                           " is done with it");
      }
      std::erase_if(list, [&](const Use& use) { return begin <= use.begin && use.end <= end; });
      list.push_back({stream, index, block, begin, end});
    }
  }
};

inline Device* device = nullptr;

inline bool Fails(const char* function) {
  const std::uint64_t n = ++device->calls[function];
  return device->fail_function == function && n == device->fail_at;
}

inline DriverApi Api() {
  DriverApi api;
  api.cuInit = [](unsigned) { return CUDA_SUCCESS; };
  api.cuDeviceGetCount = [](int* n) { return *n = 1, CUDA_SUCCESS; };
  api.cuDeviceGetName = [](char* name, int size, CUdevice) {
    return std::strncpy(name, "model", static_cast<std::size_t>(size)), CUDA_SUCCESS;
  };
  api.cuDeviceGetAttribute = [](int* value, CUdevice_attribute, CUdevice) { return *value = 1, CUDA_SUCCESS; };
  api.cuCtxGetCurrent = [](CUcontext* context) {
    return *context = reinterpret_cast<CUcontext>(std::uintptr_t{64}), CUDA_SUCCESS;
  };
  api.cuCtxSetCurrent = [](CUcontext) { return CUDA_SUCCESS; };
  api.cuCtxGetDevice = [](CUdevice* d) { return *d = 0, CUDA_SUCCESS; };
  api.cuCtxPushCurrent = [](CUcontext) { return CUDA_SUCCESS; };
  api.cuCtxPopCurrent = [](CUcontext*) { return CUDA_SUCCESS; };
  api.cuCtxSynchronize = [] {
    if (Fails("cuCtxSynchronize")) return CUDA_ERROR_UNKNOWN;
    return device->ExecuteAll(), CUDA_SUCCESS;
  };
  api.cuMemGetInfo = [](std::size_t* free_bytes, std::size_t* total_bytes) {
    *total_bytes = device->total_bytes;
    return *free_bytes = device->total_bytes - device->used_bytes, CUDA_SUCCESS;
  };
  api.cuMemGetAllocationGranularity = [](std::size_t* bytes, const CUmemAllocationProp*,
                                         CUmemAllocationGranularity_flags) { return *bytes = kPage, CUDA_SUCCESS; };
  api.cuMemAddressReserve = [](CUdeviceptr* address, std::size_t bytes, std::size_t, CUdeviceptr, unsigned long long) {
    *address = device->next_address;
    return device->next_address += bytes, CUDA_SUCCESS;
  };
  api.cuMemAddressFree = [](CUdeviceptr, std::size_t) { return CUDA_SUCCESS; };
  api.cuMemCreate = [](CUmemGenericAllocationHandle* handle, std::size_t bytes, const CUmemAllocationProp*,
                       unsigned long long) {
    if (Fails("cuMemCreate") || device->used_bytes + bytes > device->total_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    device->used_bytes += bytes;
    device->handles[*handle = device->next_handle++] = 0;
    return CUDA_SUCCESS;
  };
  api.cuMemRelease = [](CUmemGenericAllocationHandle handle) {
    if (device->handles[handle] != 0) device->errors.push_back("a page is released while it is mapped");
    device->handles.erase(handle);
    device->uses.erase(handle);
    return device->used_bytes -= kPage, CUDA_SUCCESS;
  };
  api.cuMemMap = [](CUdeviceptr address, std::size_t, std::size_t, CUmemGenericAllocationHandle handle,
                    unsigned long long) {
    if (Fails("cuMemMap")) return CUDA_ERROR_OUT_OF_MEMORY;
    if (device->mapped.count(address)) device->errors.push_back("an address is mapped twice");
    if (!device->handles.count(handle)) device->errors.push_back("a page that does not exist is mapped");
    device->mapped[address] = handle;
    return ++device->handles[handle], CUDA_SUCCESS;
  };
  api.cuMemUnmap = [](CUdeviceptr address, std::size_t bytes) {
    for (CUdeviceptr page = address; page < address + bytes; page += kPage) {
      const auto found = device->mapped.find(page);
      if (found == device->mapped.end()) {
        device->errors.push_back("an address is unmapped that is not mapped");
        continue;
      }
      --device->handles[found->second];
      device->mapped.erase(found);
      device->accessible.erase(page);
    }
    return CUDA_SUCCESS;
  };
  api.cuMemSetAccess = [](CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc*, std::size_t) {
    if (Fails("cuMemSetAccess")) return CUDA_ERROR_OUT_OF_MEMORY;
    for (CUdeviceptr page = address; page < address + bytes; page += kPage) device->accessible[page] = true;
    return CUDA_SUCCESS;
  };
  api.cuMemAlloc = [](CUdeviceptr*, std::size_t) { return CUDA_ERROR_OUT_OF_MEMORY; };
  api.cuMemFree = [](CUdeviceptr) { return CUDA_ERROR_INVALID_VALUE; };
  api.cuStreamGetCtx = [](CUstream, CUcontext* context) {
    return *context = reinterpret_cast<CUcontext>(std::uintptr_t{64}), CUDA_SUCCESS;
  };
  api.cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus* status) {
    return *status = CU_STREAM_CAPTURE_STATUS_NONE, CUDA_SUCCESS;
  };
  api.cuStreamQuery = [](CUstream stream) {
    const bool idle = device->Reached(device->clocks[stream]) && device->executed[stream] == device->submitted[stream];
    return idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  };
  api.cuStreamSynchronize = [](CUstream stream) {
    return device->executed[stream] = device->submitted[stream], CUDA_SUCCESS;
  };
  api.cuEventCreate = [](CUevent* event, unsigned) {
    if (Fails("cuEventCreate")) return CUDA_ERROR_OUT_OF_MEMORY;
    return *event = reinterpret_cast<CUevent>(device->next_event++ << 4), CUDA_SUCCESS;
  };
  api.cuEventDestroy = [](CUevent) { return CUDA_SUCCESS; };
  api.cuEventRecord = [](CUevent event, CUstream stream) {
    if (Fails("cuEventRecord")) return CUDA_ERROR_UNKNOWN;
    Clock clock = device->clocks[stream];
    clock[stream] = device->submitted[stream];
    device->events[event] = {clock};
    return CUDA_SUCCESS;
  };
  api.cuStreamWaitEvent = [](CUstream stream, CUevent event, unsigned) {
    if (Fails("cuStreamWaitEvent")) return CUDA_ERROR_UNKNOWN;
    for (const auto& [other, index] : device->events[event].clock) {
      auto& known = device->clocks[stream][other];
      known = std::max(known, index);
    }
    return CUDA_SUCCESS;
  };
  api.cuEventQuery = [](CUevent event) {
    return device->Reached(device->events[event].clock) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  };
  api.cuEventElapsedTime = [](float* milliseconds, CUevent, CUevent) {
    *milliseconds = device->elapsed_ms;
    return CUDA_SUCCESS;
  };
  api.cuEventSynchronize = [](CUevent event) { return device->Reach(device->events[event].clock), CUDA_SUCCESS; };
  api.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode*) { return CUDA_SUCCESS; };
  return api;
}

}  // namespace stalloc::runtime::model
