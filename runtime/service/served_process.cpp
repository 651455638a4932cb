#include "service/served_process.h"

#include <algorithm>
#include <limits>
#include <string>

#include "runtime/base/cancellation_off.h"
#include "runtime/base/log.h"
#include "runtime/device/capture.h"

namespace stalloc::runtime {

constinit std::atomic<Process*> g_process{nullptr};
constinit std::atomic<bool> g_forked{false};
constinit thread_local ContextCache t_context __attribute__((tls_model("initial-exec"))) = {nullptr, 0, nullptr, 0};
constinit thread_local StreamCache t_streams __attribute__((tls_model("initial-exec"))) = {};

namespace {

void SayNotServed(CUdevice device, const DeviceService::Refusal& refusal) noexcept {
  try {
    LogError("device " + std::to_string(device) + " is not served: " + refusal.reason +
             (refusal.for_good ? "" : "; later requests try again"));
  } catch (const std::exception&) {  // the host has no memory for the line
  }
}

// A green context may end, and waiting in it waits for its own streams alone: the primary one is taken in its place.
DeviceService* MakeService(Process& process, CUdevice device, CUcontext current) {
  const CUcontext context = MemoryContextOf(current);
  const CancellationOff no_cancellation;  // files are read, perhaps
  // It may be in the middle of a capture that a program asks for the first time, or for the first time after a reset.
  const RelaxedCapture relaxed(process.driver, true);
  DeviceService::Refusal refusal;
  std::unique_ptr<DeviceService> made;
  try {
    made = DeviceService::Make(process.driver, process.settings, device, context, process.peers[device], &refusal);
  } catch (const std::exception&) {
    refusal.reason = "out of memory";  // the host; short enough to need none of it
  }
  int count = 0;
  if (process.driver.cuDeviceGetCount(&count) == CUDA_SUCCESS && count > 1) {
    process.several_devices.store(true);
    g_several_contexts.store(true);
  }
  DeviceService* service = nullptr;
  {
    std::lock_guard lock(process.mutex);
    if (DeviceService* first = process.devices[device].load()) return first;  // another thread was quicker
    if (!made) {
      // Without a reason it is the context, not the device: it is broken or destroyed, and the next may be sound.
      if (!refusal.reason.empty() && process.refused[device].Failed(refusal.for_good)) SayNotServed(device, refusal);
      return nullptr;
    }
    service = made.release();
    if (process.recorder.recording()) service->memory().SetRecorder(&process.recorder);
    process.devices[device].store(service, std::memory_order_release);
    process.served_devices.fetch_add(1);
  }
  try {
    service->memory().NoteContext(context, context);
    // Those that are made from here on tell it themselves.
    for (const CUcontext living : LivingContexts(device)) service->memory().NoteContext(living, living);
  } catch (const std::exception&) {  // each is noted with its first request, or has none served
  }
  Learn(process, *service, context);
  return service;
}

const Process::KnownContext* Find(const std::vector<Process::KnownContext>& known, CUcontext context) {
  const auto found = std::ranges::find(known, context, &Process::KnownContext::context);
  return found == known.end() ? nullptr : &*found;
}

// A destroyed context stays current where it was, and what the driver says of it then is what it said before; but
// nothing can be made in it. The current context is asked.
CUresult Sound(const DriverApi& driver) noexcept {
  const RelaxedCapture relaxed(driver);
  CUevent event = nullptr;
  const CUresult result = driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  if (result == CUDA_SUCCESS) driver.cuEventDestroy(event);
  return result;
}

// Takes the current context, of a device that is served, for one in which something is asked for. Another result than
// CUDA_SUCCESS is what the driver has against it, or that the host is out of memory.
CUresult NoteContext(Process& process, CUdevice device, CUcontext context, DeviceMemory::Owner* owner) noexcept {
  std::vector<Process::KnownContext>& known = process.contexts[device];
  {
    const std::lock_guard lock(process.mutex);
    if (const Process::KnownContext* found = Find(known, context)) return *owner = found->owner, CUDA_SUCCESS;
  }
  // It may be one that has ended. Those that are known have not.
  if (process.context_epoch.load(std::memory_order_relaxed) != kNoContextHasEnded)
    if (const CUresult result = Sound(process.driver); result != CUDA_SUCCESS) return result;
  const CUcontext waits_in = MemoryContextOf(context);
  const std::lock_guard lock(process.mutex);
  if (const Process::KnownContext* found = Find(known, context)) return *owner = found->owner, CUDA_SUCCESS;
  DeviceMemory::Owner& last = process.last_owner[device];
  *owner = last == std::numeric_limits<DeviceMemory::Owner>::max() ? DeviceMemory::kNoOwner : ++last;
  try {
    // Before anything is served in it.
    if (DeviceService* service = process.devices[device].load())
      service->memory().NoteContext(context, waits_in, *owner);
    known.push_back({context, *owner});
    if (known.size() > 1) g_several_contexts.store(true);
  } catch (const std::exception&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return CUDA_SUCCESS;
}

DeviceService* ServiceOn(Process& process, CUdevice device, CUcontext context, DeviceMemory::Owner* owner) {
  if (static_cast<std::size_t>(device) >= kMaxDevices) return nullptr;
  DeviceService* service = process.devices[device].load(std::memory_order_acquire);
  if (service == nullptr && !process.last_ends[device].load() && process.refused[device].Due())
    service = MakeService(process, device, context);
  if (service == nullptr || NoteContext(process, device, context, owner) != CUDA_SUCCESS) return nullptr;
  return service;
}

// True if the thread's current context is the one it remembers; it does so without a doubt from now on.
bool IsRemembered(CUcontext current, std::uint64_t epoch) noexcept {
  if (t_context.context != current || (t_context.epoch & ~kInDoubt) != epoch) return false;
  t_context.epoch = epoch;
  return true;
}

Place CurrentPlace(Process& process) noexcept {
  Place place{nullptr, CurrentContext(process.driver)};
  if (place.context == nullptr) return place;
  const std::uint64_t epoch = process.context_epoch.load(std::memory_order_relaxed);
  if (IsRemembered(place.context, epoch)) {
    place.service = t_context.service;
    return place;
  }
  CUdevice device = 0;
  if (process.driver.cuCtxGetDevice(&device) != CUDA_SUCCESS) return place;
  DeviceMemory::Owner owner = DeviceMemory::kNoOwner;
  place.service = ServiceOn(process, device, place.context, &owner);
  if (place.service != nullptr || process.refused[device].for_good.load(std::memory_order_relaxed))
    t_context = {place.context, epoch, place.service, owner};
  return place;
}

}  // namespace

void Learn(Process& process, DeviceService& service, CUcontext context) noexcept {
  if (!process.settings.planning) return;
  try {
    process.learning.Add(&service.learner(), context);
  } catch (const std::exception&) {  // nothing is planned from now on
    service.learner().GiveUp();
  }
}

CUresult AskCurrentContext(Process& process, bool needs_context) noexcept {
  CUcontext current = nullptr;
  // A question that the driver always answers, but where calls are forbidden: in host functions.
  if (const CUresult result = process.driver.cuCtxGetCurrent(&current); result != CUDA_SUCCESS) return result;
  if (current == nullptr) return needs_context ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
  const std::uint64_t epoch = process.context_epoch.load(std::memory_order_relaxed);
  CUdevice device = 0;
  if (IsRemembered(current, epoch) || process.driver.cuCtxGetDevice(&device) != CUDA_SUCCESS) return CUDA_SUCCESS;
  DeviceService* service = OnDevice(&process, device);
  if (service == nullptr) return CUDA_SUCCESS;
  DeviceMemory::Owner owner = DeviceMemory::kNoOwner;
  const CUresult result = NoteContext(process, device, current, &owner);
  if (result == CUDA_SUCCESS) t_context = {current, epoch, service, owner};
  return result;
}

// Rarely asked: each thread remembers the answer for some streams.
Place PlaceOfStream(Process& process, CUstream stream) noexcept {
  if (IsDefaultStream(stream)) return FindPlace(process, stream);
  Place place;
  if (process.driver.cuStreamGetCtx(stream, &place.context) != CUDA_SUCCESS || place.context == nullptr) return {};
  ContextScope scope(process.driver, place.context);
  CUdevice device = 0;
  if (scope.result() != CUDA_SUCCESS || process.driver.cuCtxGetDevice(&device) != CUDA_SUCCESS) return {};
  DeviceMemory::Owner owner = DeviceMemory::kNoOwner;
  place.service = ServiceOn(process, device, place.context, &owner);
  return place;
}

Place FindPlace(Process& process, StreamOrder order) noexcept {
  const Place here = CurrentPlace(process);
  // With no context the driver must be let speak.
  if (here.context == nullptr || !order || IsDefaultStream(*order)) return here;
  const std::uint64_t epoch = process.stream_epoch.load(std::memory_order_acquire);
  // With one context there is no other.
  Place place = here;
  if (g_several_contexts.load(std::memory_order_relaxed)) {
    place = PlaceOfStream(process, *order);
    if (place.context == nullptr) return here;
  }
  if (place.service == nullptr) return place;
  if (t_streams.epoch != epoch) t_streams = {epoch, {}};
  t_streams.Of(*order) = {*order, place};
  return place;
}

DeviceService* FindOwner(Process& process, CUdeviceptr address) noexcept {
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

planner::TraceEvent EventOf(const DeviceService& service, StreamOrder order, StreamIndex stream) noexcept {
  planner::TraceEvent event;
  event.device = static_cast<std::uint8_t>(service.device());
  event.flags = order ? planner::TraceEvent::kHasStream : 0;
  event.stream = stream == kNoStream ? 0 : stream - 1u;
  return event;
}

void RecordFree(Process& process, const DeviceService& service, StreamOrder order, StreamIndex stream,
                const DeviceMemory::BlockInfo& freed) noexcept {
  if (!process.recorder.recording()) return;
  planner::TraceEvent event = EventOf(service, order, stream);
  event.op = planner::TraceEvent::Op::kFree;
  event.sequence = freed.sequence;
  event.block = freed.number;
  event.size_bytes = freed.size_bytes;
  process.recorder.Record(event);
}

}  // namespace stalloc::runtime
