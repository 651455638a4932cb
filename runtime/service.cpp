#include "runtime/service.h"

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/call_site.h"
#include "runtime/device_service.h"
#include "runtime/learning_thread.h"
#include "runtime/log.h"
#include "runtime/recorder.h"
#include "runtime/settings.h"
#include "runtime/statistics.h"

namespace stalloc::runtime {

namespace {

constexpr std::size_t kMaxDevices = 64;

// Everything that the process is served with. Made once and never freed: hooks may run during the last destructors.
struct Process {
  Process(const DriverApi& d, const Settings& s) : driver(d), settings(s), learning(driver) {}

  const DriverApi driver;
  const Settings settings;
  LearningThread learning;
  Recorder recorder;  // takes requests down only where a trace was asked for
  std::mutex mutex;   // guards who is made; never held over a driver call
  // By device ordinal; published once, read without a lock.
  std::atomic<DeviceService*> devices[kMaxDevices] = {};
  std::atomic<bool> refused[kMaxDevices] = {};
  std::atomic<std::uint64_t> context_epoch{1};
  std::atomic<std::uint64_t> passed_requests{0};
  std::atomic<std::uint64_t> passed_bytes{0};
  std::atomic<bool> finished{false};
  std::atomic<bool> stream_ordered{false};  // a request with a stream has been seen
};

std::atomic<Process*> g_process{nullptr};
std::atomic<bool> g_decided{false};
std::atomic<bool> g_forked{false};

Process* Serving() noexcept {
  if (g_forked.load(std::memory_order_relaxed)) return nullptr;
  return g_process.load(std::memory_order_acquire);
}

// The device that a context belongs to, remembered by each thread for the context it last asked with.
struct ContextCache {
  CUcontext context;
  std::uint64_t epoch;
  DeviceService* service;
};
thread_local ContextCache t_cache __attribute__((tls_model("initial-exec"))) = {nullptr, 0, nullptr};

DeviceService* MakeService(Process& process, CUdevice device, CUcontext context) {
  std::string refusal;
  std::unique_ptr<DeviceService> made;
  try {
    made = DeviceService::Make(process.driver, process.settings, device, context, &refusal);
  } catch (const std::exception& e) {
    refusal = e.what();
  }
  std::lock_guard lock(process.mutex);
  if (DeviceService* first = process.devices[device].load()) return first;  // another thread was quicker
  if (!made) {
    if (!process.refused[device].exchange(true))
      LogWarn("device " + std::to_string(device) + " is not served: " + refusal);
    return nullptr;
  }
  DeviceService* service = made.release();
  if (process.recorder.recording()) service->memory().SetRecorder(&process.recorder);
  process.devices[device].store(service, std::memory_order_release);
  if (process.settings.planning) process.learning.Add(&service->learner(), context);
  return service;
}

// The service of the current context's device; nullptr where there is no context or the device is not served.
DeviceService* Current(Process& process, CUcontext* current = nullptr) noexcept {
  CUcontext context = nullptr;
  if (process.driver.cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) return nullptr;
  if (current != nullptr) *current = context;
  const std::uint64_t epoch = process.context_epoch.load(std::memory_order_relaxed);
  if (t_cache.context == context && t_cache.epoch == epoch) return t_cache.service;
  CUdevice device = 0;
  if (process.driver.cuCtxGetDevice(&device) != CUDA_SUCCESS || static_cast<std::size_t>(device) >= kMaxDevices)
    return nullptr;
  DeviceService* service = process.devices[device].load(std::memory_order_acquire);
  if (service == nullptr && !process.refused[device].load()) service = MakeService(process, device, context);
  t_cache = {context, epoch, service};
  return service;
}

DeviceService* Owner(Process& process, CUdeviceptr address) noexcept {
  if (t_cache.service != nullptr && t_cache.service->memory().Owns(address)) return t_cache.service;
  for (auto& slot : process.devices) {
    DeviceService* service = slot.load(std::memory_order_acquire);
    if (service != nullptr && service->memory().Owns(address)) return service;
  }
  return nullptr;
}

DeviceService* OnDevice(Process* process, int device) noexcept {
  if (process == nullptr || device < 0 || static_cast<std::size_t>(device) >= kMaxDevices) return nullptr;
  return process->devices[device].load(std::memory_order_acquire);
}

// Makes a service's own context current where another one (or none) is.
class ContextScope {
 public:
  ContextScope(const DriverApi& driver, CUcontext wanted) : driver_(driver) {
    CUcontext current = nullptr;
    driver_.cuCtxGetCurrent(&current);
    pushed_ = current != wanted && driver_.cuCtxPushCurrent(wanted) == CUDA_SUCCESS;
  }
  ~ContextScope() {
    CUcontext popped = nullptr;
    if (pushed_) driver_.cuCtxPopCurrent(&popped);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const DriverApi& driver_;
  bool pushed_ = false;
};

// What makes a stream handle unique: the legacy stream is one a context, the per-thread stream one a context and
// thread.
std::optional<DeviceMemory::Order> OrderOf(StreamOrder order, CUcontext context) noexcept {
  if (!order) return std::nullopt;
  DeviceMemory::Order result{*order, 0};
  if (result.stream == CU_STREAM_LEGACY) result.stream = nullptr;
  if (result.stream == nullptr) result.scope = reinterpret_cast<std::uint64_t>(context);
  if (result.stream == CU_STREAM_PER_THREAD)
    result.scope = reinterpret_cast<std::uint64_t>(context) ^ (static_cast<std::uint64_t>(pthread_self()) << 1);
  return result;
}

bool Capturing(const Process& process, StreamOrder order) noexcept {
  if (DeviceMemory::captures_in_progress.load(std::memory_order_relaxed) == 0) return false;
  if (!order) return true;  // a request without a stream while somebody captures: the driver decides
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return process.driver.cuStreamIsCapturing(*order, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

planner::TraceEvent EventOf(const DeviceService& service, StreamOrder order, StreamIndex stream) noexcept {
  planner::TraceEvent event;
  event.device = static_cast<std::uint8_t>(service.device());
  event.flags = order ? planner::TraceEvent::kHasStream : 0;
  event.stream = stream == kNoStream ? 0 : stream - 1u;
  return event;
}

void RecordOrder(Process& process, const DeviceService& service, planner::TraceEvent::Op op, CUevent event,
                 DeviceMemory::Noted noted) noexcept {
  if (noted.stream == kNoStream || !process.recorder.recording()) return;
  planner::TraceEvent order = EventOf(service, CUstream{}, noted.stream);
  order.op = op;
  order.sequence = noted.sequence;
  order.block = reinterpret_cast<std::uint64_t>(event);
  process.recorder.Record(order);
}

// A snapshot of everything, for the last line and the statistics file.
Statistics Collect(Process& process) {
  Statistics statistics;
  for (auto& slot : process.devices) {
    DeviceService* service = slot.load(std::memory_order_acquire);
    if (service == nullptr) continue;
    statistics.devices.push_back(
        {static_cast<int>(service->device()), service->name(), FiguresOf(service->memory().Counters())});
  }
  statistics.passed_through_requests = process.passed_requests.load(std::memory_order_relaxed);
  statistics.passed_through_bytes = process.passed_bytes.load(std::memory_order_relaxed);
  const Recorder::Counts counts = process.recorder.counts();
  statistics.trace_events = counts.delivered;
  statistics.trace_events_dropped = counts.dropped;
  return statistics;
}

// STALLOC_SERVE: is a request of this order to be served?
bool Wanted(Process& process, StreamOrder order) noexcept {
  if (order) {
    if (!process.stream_ordered.load(std::memory_order_relaxed)) process.stream_ordered.store(true);
    return true;
  }
  switch (process.settings.serve) {
    case Serve::kAsync:
      return false;
    case Serve::kAuto:
      return !process.stream_ordered.load(std::memory_order_relaxed);
    case Serve::kAll:
      break;
  }
  return true;
}

template <typename Visit>
void ForEachService(Process* process, Visit visit) noexcept {
  if (process == nullptr) return;
  for (auto& slot : process->devices)
    if (DeviceService* service = slot.load(std::memory_order_acquire)) visit(*service);
}

}  // namespace

bool Start(const DriverApi& driver, const Settings& settings) noexcept {
  if (g_decided.exchange(true)) return Started();
  if (settings.disable) return false;
  try {
    SetLogLevel(settings.log);
#define STALLOC_CHECK_MEMBER(name, required)           \
  if (required && driver.name == nullptr) {            \
    LogWarn("not serving: this driver has no " #name); \
    return false;                                      \
  }
    STALLOC_DRIVER_FUNCTIONS(STALLOC_CHECK_MEMBER)
#undef STALLOC_CHECK_MEMBER
    if (settings.backing == Backing::kContiguous)
      LogWarn("STALLOC_BACKING=contiguous is not there yet: memory is made of pages");
    if (settings.planning) LoadUnwinder();
    auto* process = new Process(driver, settings);
    if (!settings.trace.empty()) process->recorder.Start(settings.trace.Expand());
    g_process.store(process, std::memory_order_release);
    return true;
  } catch (const std::exception& e) {
    LogWarn(std::string("not serving: ") + e.what());
    return false;
  }
}

bool Started() noexcept { return Serving() != nullptr; }

Answer Allocate(CUdeviceptr* address, std::size_t size_bytes, StreamOrder order, CUresult* result) noexcept {
  Process* process = Serving();
  if (process == nullptr) return Answer::kPassThrough;
  CUcontext context = nullptr;
  DeviceService* service = Current(*process, &context);
  if (service == nullptr || !Wanted(*process, order) || Capturing(*process, order)) return Answer::kPassThrough;
  DeviceMemory& memory = service->memory();
  try {
    const std::uint64_t call_site = memory.WantsCallSite(size_bytes) ? CallSiteHash(process->settings.stack_depth) : 0;
    const DeviceMemory::Allocation made = memory.Allocate(size_bytes, OrderOf(order, context), call_site);
    if (made.result == CUDA_SUCCESS) {
      *address = made.address;
      *result = CUDA_SUCCESS;
      if (process->recorder.recording()) {
        planner::TraceEvent event = EventOf(*service, order, made.stream);
        event.op = planner::TraceEvent::Op::kAllocate;
        event.served = made.planned ? planner::TraceEvent::Served::kPlanned : planner::TraceEvent::Served::kOnline;
        event.sequence = made.sequence;
        event.block = made.number;
        event.size_bytes = size_bytes;
        event.call_site = call_site;
        process->recorder.Record(event);
      }
      return Answer::kServed;
    }
    if (made.result == CUDA_ERROR_OUT_OF_MEMORY && service->limited()) {
      *result = CUDA_ERROR_OUT_OF_MEMORY;
      return Answer::kServed;
    }
  } catch (const std::exception&) {  // the host is out of memory: the driver will say what it can do
  }
  return Answer::kPassThrough;
}

Answer Free(CUdeviceptr address, StreamOrder order, CUresult* result) noexcept {
  Process* process = Serving();
  if (process == nullptr) return Answer::kPassThrough;
  DeviceService* service = Owner(*process, address);
  if (service == nullptr) return Answer::kPassThrough;
  try {
    ContextScope scope(process->driver, service->context());
    DeviceMemory::BlockInfo freed;
    StreamIndex stream = kNoStream;
    *result = service->memory().Free(address, OrderOf(order, service->context()), &freed, &stream);
    if (freed.number != 0 && process->recorder.recording()) {
      planner::TraceEvent event = EventOf(*service, order, stream);
      event.op = planner::TraceEvent::Op::kFree;
      event.sequence = freed.sequence;
      event.block = freed.number;
      event.size_bytes = freed.size_bytes;
      process->recorder.Record(event);
    }
  } catch (const std::exception&) {
    *result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  return Answer::kServed;
}

bool Owns(CUdeviceptr address) noexcept {
  Process* process = Serving();
  return process != nullptr && Owner(*process, address) != nullptr;
}

bool FindBlock(CUdeviceptr address, CUdeviceptr* base, std::size_t* size_bytes, std::uint64_t* buffer_id) noexcept {
  Process* process = Serving();
  DeviceService* service = process == nullptr ? nullptr : Owner(*process, address);
  if (service == nullptr) return false;
  const auto block = service->memory().Find(address);
  if (!block) return false;
  if (base != nullptr) *base = block->address;
  if (size_bytes != nullptr) *size_bytes = block->size_bytes;
  // Buffer ids are unique in the process and never the driver's own, which count up from small numbers.
  if (buffer_id != nullptr)
    *buffer_id = (std::uint64_t{1} << 62) | (static_cast<std::uint64_t>(service->device()) << 56) | block->number;
  return true;
}

std::uint64_t IdleBytes(int device) noexcept {
  DeviceService* service = OnDevice(Serving(), device);
  return service == nullptr ? 0 : service->memory().IdleBytes();
}

PoolStatistics GetPoolStatistics(int device) noexcept {
  DeviceService* service = OnDevice(Serving(), device);
  if (service == nullptr) return {};
  const MemoryCounters counters = service->memory().Counters();
  return {counters.used_bytes, counters.used_high_bytes, counters.reserved_bytes, counters.reserved_high_bytes};
}

void ResetPoolHigh(int device, bool used, bool reserved) noexcept {
  if (DeviceService* service = OnDevice(Serving(), device)) service->memory().ResetHigh(used, reserved);
}

void Trim(int device, std::uint64_t keep_bytes) noexcept {
  Process* process = Serving();
  DeviceService* service = OnDevice(process, device);
  if (service == nullptr) return;
  try {
    ContextScope scope(process->driver, service->context());
    service->memory().Trim(keep_bytes);
  } catch (const std::exception&) {  // nothing was given back
  }
}

bool ReleaseForRetry(int device) noexcept {
  Process* process = Serving();
  DeviceService* service = OnDevice(process, device);
  if (service == nullptr) return false;
  try {
    ContextScope scope(process->driver, service->context());
    return service->memory().ReleaseIdle() != 0;
  } catch (const std::exception&) {
    return false;
  }
}

void NotePassedThrough(std::size_t size_bytes) noexcept {
  Process* process = Serving();
  if (process == nullptr || size_bytes == 0) return;
  process->passed_requests.fetch_add(1, std::memory_order_relaxed);
  process->passed_bytes.fetch_add(size_bytes, std::memory_order_relaxed);
}

void NoteStreamDestroyed(CUstream stream) noexcept {
  Process* process = Serving();
  ForEachService(process, [&](DeviceService& service) {
    ContextScope scope(process->driver, service.context());
    service.memory().NoteStreamDestroyed(*OrderOf(stream, service.context()));
  });
}

void NoteContextDestroyed(CUcontext context) noexcept {
  Process* process = Serving();
  if (process == nullptr) return;
  for (auto& slot : process->devices) {
    DeviceService* service = slot.load(std::memory_order_acquire);
    if (service == nullptr || service->context() != context) continue;
    // Its memory goes with the context. The service stays where it is (other threads may be inside it), unreachable.
    process->learning.Remove(&service->learner());
    slot.store(nullptr, std::memory_order_release);
  }
  process->context_epoch.fetch_add(1);
}

void NoteCaptureBegan() noexcept { DeviceMemory::captures_in_progress.fetch_add(1); }
void NoteCaptureEnded() noexcept { DeviceMemory::captures_in_progress.fetch_sub(1); }

void NoteEventRecorded(CUevent event, CUstream stream) noexcept {
  Process* process = Serving();
  if (process == nullptr) return;
  CUcontext context = nullptr;
  DeviceService* service = Current(*process, &context);
  if (service == nullptr) return;
  try {
    RecordOrder(*process, *service, planner::TraceEvent::Op::kRecord, event,
                service->memory().NoteEventRecorded(event, *OrderOf(stream, context)));
  } catch (const std::exception&) {  // an order that is not known costs a wait at most
    service->memory().NoteEventDestroyed(event);
  }
}

void NoteStreamWaits(CUstream stream, CUevent event) noexcept {
  Process* process = Serving();
  if (process == nullptr) return;
  CUcontext context = nullptr;
  DeviceService* service = Current(*process, &context);
  if (service == nullptr) return;
  try {
    RecordOrder(*process, *service, planner::TraceEvent::Op::kWait, event,
                service->memory().NoteStreamWaits(*OrderOf(stream, context), event));
  } catch (const std::exception&) {  // as above
  }
}

void NoteEventDestroyed(CUevent event) noexcept {
  ForEachService(Serving(), [&](DeviceService& service) { service.memory().NoteEventDestroyed(event); });
}

void NoteForkedChild() noexcept {
  if (Process* process = g_process.load()) process->recorder.ForkedChild();
  g_forked.store(true);
}

void Finish() noexcept {
  Process* process = Serving();
  if (process == nullptr || process->finished.exchange(true)) return;
  try {
    process->learning.Stop();
    process->recorder.Stop();
    const Statistics statistics = Collect(*process);
    if (statistics.devices.empty()) return;  // nothing was asked for
    if (process->settings.summary) LogLine(SummaryLine(statistics));
    if (!process->settings.stats.empty())
      if (const auto error = WriteStatistics(statistics, process->settings.stats.Expand()))
        LogWarn("the statistics could not be written: " + error->Text());
  } catch (const std::exception&) {  // the program's end must not fail on its statistics
  }
}

}  // namespace stalloc::runtime
