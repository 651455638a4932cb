// Process: everything that this process is served with, and how a request finds the device that it means.
//
// Private to service*.cpp. Made once and never freed: hooks may run during the last destructors. Any thread.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/base/driver_api.h"
#include "runtime/base/settings.h"
#include "runtime/learning/learning_thread.h"
#include "runtime/order/context_scope.h"
#include "runtime/pages/peer_access.h"
#include "runtime/service/device_service.h"
#include "runtime/service/service.h"
#include "runtime/trace/recorder.h"
#include "service/living_contexts.h"

namespace stalloc::runtime {

inline constexpr std::uint64_t kNoContextHasEnded = 1;  // the first epoch of contexts

// A device that could not be served when it was tried. What passes by is tried again: after one request that went to
// the driver, then two, four and so on, so that a device that stays as it is costs next to nothing.
struct RefusedDevice {
  std::atomic<bool> for_good{false};
  std::atomic<std::uint32_t> failures{0};
  std::atomic<std::uint64_t> asked{0};  // requests since the last attempt

  bool Due() noexcept {
    const std::uint32_t failed = failures.load(std::memory_order_relaxed);
    if (failed == 0) return true;
    if (for_good.load(std::memory_order_relaxed)) return false;
    return (asked.fetch_add(1, std::memory_order_relaxed) + 1) >> std::min(failed - 1, kMostDoublings) != 0;
  }
  // True: it is the first time that this is to be said.
  bool Failed(bool is_for_good) noexcept {
    asked.store(0, std::memory_order_relaxed);
    const bool first_for_good = is_for_good && !for_good.exchange(true);
    return failures.fetch_add(1) == 0 || first_for_good;
  }

  static constexpr std::uint32_t kMostDoublings = 20;
};

struct Process {
  Process(const DriverApi& d, const Settings& s) : driver(d), settings(s), learning(driver) {}

  const DriverApi driver;
  const Settings settings;
  LearningThread learning;
  Recorder recorder;    // takes requests down only where a trace was asked for:
  bool traced = false;  // set before the first request
  std::mutex mutex;     // guards who is made and who is retired, and the contexts; never held over a driver call
  // By device ordinal; published once for each context, read without a lock.
  std::atomic<DeviceService*> devices[kMaxDevices] = {};
  RefusedDevice refused[kMaxDevices];
  std::atomic<bool> last_ends[kMaxDevices] = {};  // the last context is ending: until it has nothing is served there
  std::vector<DeviceService*> retired;            // whose context has ended; they count in the statistics
  // Contexts in which something was asked for, by device, with the number by which their blocks are known. A device's
  // blocks are in one service, whichever context they are of: it lives while one of them does.
  struct KnownContext {
    CUcontext context;  // nullptr: it is ending,
    DeviceMemory::Owner owner;
    DeviceMemory::Ending ending = 0;  // by this number
  };
  std::vector<KnownContext> contexts[kMaxDevices];
  DeviceMemory::Owner last_owner[kMaxDevices] = {};  // no number is given twice; contexts after the last have none
  PeerAccess peers[kMaxDevices];                     // by the device that owns the memory
  std::atomic<bool> several_devices{false};          // can be seen by this process: several contexts, too
  std::atomic<int> served_devices{0};
  std::atomic<std::uint64_t> context_epoch{kNoContextHasEnded};
  std::atomic<std::uint64_t> stream_epoch{1};  // counts streams and contexts that ended: their handles may come back
  std::atomic<std::uint64_t> passed_requests{0};
  std::atomic<std::uint64_t> passed_bytes{0};
  std::atomic<bool> finished{false};
  std::atomic<bool> exiting{false};         // exit() has been called: the kernel takes everything back soon
  std::atomic<bool> stream_ordered{false};  // a request with a stream has been seen
};

extern std::atomic<Process*> g_process;
extern std::atomic<bool> g_forked;

// nullptr before Start has succeeded and in a forked child.
inline Process* Serving() noexcept {
  if (g_forked.load(std::memory_order_relaxed)) return nullptr;
  return g_process.load(std::memory_order_acquire);
}

// Where a request is to be served.
struct Place {
  DeviceService* service = nullptr;  // nullptr: nowhere; there is no context, or the device is not served
  CUcontext context = nullptr;       // that of the stream, or the current one
};

// What each thread remembers, so that the usual request asks the driver nothing, or only which context is current.
// Initial-exec and constant: plain offsets from the thread pointer.

// The device that a context belongs to, for the context last asked with.
struct ContextCache {
  CUcontext context;
  std::uint64_t epoch;  // with kInDoubt: another context may be current by now, or none
  DeviceService* service;
  DeviceMemory::Owner owner;  // of what is allocated in the context without a stream
};
inline constexpr std::uint64_t kInDoubt = std::uint64_t{1} << 63;
extern constinit thread_local ContextCache t_context __attribute__((tls_model("initial-exec")));

// The places of streams that the program made: a handle says it, whichever context is current, for as long as no stream
// has ended.
struct StreamCache {
  struct Entry {
    CUstream stream;
    Place place;
  };
  std::uint64_t epoch;
  std::array<Entry, 8> entries;

  Entry& Of(CUstream stream) noexcept {
    const auto bits = reinterpret_cast<std::uintptr_t>(stream);
    return entries[(bits >> 4 ^ bits >> 9) % entries.size()];
  }
};
extern constinit thread_local StreamCache t_streams __attribute__((tls_model("initial-exec")));

// True in a thread that the driver has told its context. Host functions, in which calls are forbidden, run in threads
// of the driver's own, which are never told.
inline bool Remembers(const Process& process) noexcept {
  return t_context.service != nullptr && t_context.epoch == process.context_epoch.load(std::memory_order_relaxed);
}

// What CUDA says to a call of this thread for its current context's sake, which may be none, destroyed or broken; the
// thread remembers one that is sound. `needs_context`: the call is an error without one.
CUresult AskCurrentContext(Process& process, bool needs_context) noexcept;
inline CUresult CheckCurrentContext(Process& process, bool needs_context) noexcept {
  if (Remembers(process)) [[likely]]
    return CUDA_SUCCESS;
  return AskCurrentContext(process, needs_context);
}

// Of a stream, by the stream alone where it is not a default one: no context need be current.
Place PlaceOfStream(Process& process, CUstream stream) noexcept;

// Its device is learned from now on, with calls made in `context`; not where the host has no memory for that.
void Learn(Process& process, DeviceService& service, CUcontext context) noexcept;

// Of the device of the order's stream; without a stream, of the current context's device.
Place FindPlace(Process& process, StreamOrder order) noexcept;
inline Place PlaceOf(Process& process, StreamOrder order) noexcept {
  if (order && !IsDefaultStream(*order)) {
    const StreamCache::Entry& known = t_streams.Of(*order);
    if (known.stream == *order && t_streams.epoch == process.stream_epoch.load(std::memory_order_acquire)) [[likely]]
      return known.place;
  }
  return FindPlace(process, order);
}

DeviceService* FindOwner(Process& process, CUdeviceptr address) noexcept;
inline DeviceService* Owner(Process& process, CUdeviceptr address) noexcept {
  if (Remembers(process) && t_context.service->memory().Owns(address)) [[likely]]
    return t_context.service;
  return FindOwner(process, address);
}

DeviceService* OnDevice(Process* process, int device) noexcept;

// visit(service) for each device that is served.
template <typename Visit>
void ForEachService(Process* process, Visit visit) noexcept {
  if (process == nullptr) return;
  for (auto& slot : process->devices)
    if (DeviceService* service = slot.load(std::memory_order_acquire)) visit(*service);
}

inline std::optional<DeviceMemory::Order> OrderOf(StreamOrder order, CUcontext context) noexcept {
  if (!order) return std::nullopt;
  return DeviceMemory::Order{*order, context};
}

// A trace's event of a device, without what it is about.
planner::TraceEvent EventOf(const DeviceService& service, StreamOrder order, StreamIndex stream) noexcept;
// Takes a free down, if there is a trace.
void RecordFree(Process& process, const DeviceService& service, StreamOrder order, StreamIndex stream,
                const DeviceMemory::BlockInfo& freed) noexcept;

}  // namespace stalloc::runtime
