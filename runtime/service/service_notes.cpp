// The part of the service that is told of what the program does beside asking for memory: streams, events and contexts
// that end, captures, forks, access that peers are given.
#include <atomic>
#include <exception>
#include <mutex>
#include <string>

#include "runtime/base/log.h"
#include "runtime/device/capture.h"
#include "runtime/service/program_needs.h"
#include "runtime/service/service.h"
#include "runtime/service/signal_request.h"
#include "service/served_process.h"

namespace stalloc::runtime {

namespace {

void RecordOrder(Process& process, const DeviceService& service, planner::TraceEvent::Op op, CUevent event,
                 DeviceMemory::Noted noted) noexcept {
  if (noted.stream == kNoStream || !process.recorder.recording()) return;
  planner::TraceEvent order = EventOf(service, CUstream{}, noted.stream);
  order.op = op;
  order.sequence = noted.sequence;
  order.block = reinterpret_cast<std::uint64_t>(event);
  process.recorder.Record(order);
}

bool AreTwoDevices(int owner, int peer) noexcept {
  constexpr int kLimit = kMaxDevices;
  return owner >= 0 && owner < kLimit && peer >= 0 && peer < kLimit && owner != peer;
}

// Another context of the device in which something was asked for, or nullptr.
CUcontext AnotherThan(Process& process, CUdevice device, CUcontext context) noexcept {
  const std::lock_guard lock(process.mutex);
  for (const Process::KnownContext& known : process.contexts[device])
    if (known.context != nullptr && known.context != context) return known.context;
  return nullptr;
}

// Its handle says nothing any more. What was allocated in it is still known by its numbers, of which it may have
// several.
void NameByEnding(Process& process, CUdevice device, CUcontext context, DeviceMemory::Ending ending) noexcept {
  const std::lock_guard lock(process.mutex);
  for (Process::KnownContext& known : process.contexts[device])
    if (known.context == context) known.context = nullptr, known.ending = ending;
}

void NameByContext(Process& process, CUdevice device, DeviceMemory::Ending ending, CUcontext context) noexcept {
  const std::lock_guard lock(process.mutex);
  for (Process::KnownContext& known : process.contexts[device])
    if (known.context == nullptr && known.ending == ending) known.context = context, known.ending = 0;
}

// Takes out one of the numbers by which blocks of a context are known that has ended. False: there are no more.
bool TakeOwner(Process& process, CUdevice device, DeviceMemory::Ending ending, DeviceMemory::Owner* owner) noexcept {
  const std::lock_guard lock(process.mutex);
  std::vector<Process::KnownContext>& known = process.contexts[device];
  const auto at = std::ranges::find_if(
      known, [&](const Process::KnownContext& k) { return k.context == nullptr && k.ending == ending; });
  if (at == known.end()) return false;
  *owner = at->owner;
  known.erase(at);
  return true;
}

CUresult WaitIn(Process& process, CUcontext context) noexcept {
  const ContextScope scope(process.driver, context);
  const RelaxedCapture relaxed(process.driver);
  return scope.result() == CUDA_SUCCESS ? process.driver.cuCtxSynchronize() : scope.result();
}

// Waits for what a context that is about to end, or has ended, is still doing. False: that is not known.
bool IsOver(Process& process, CUcontext context) noexcept {
  const CUresult result = WaitIn(process, context);
  return result == CUDA_SUCCESS || HasEnded(result);
}

// What a context has allocated without a stream ends with it; what it has taken from the device's pool does not.
void FreeBlocksOf(Process& process, DeviceService& service, DeviceMemory::Owner owner) noexcept {
  if (owner == DeviceMemory::kNoOwner) return;
  try {
    for (const DeviceMemory::BlockInfo& freed : service.memory().FreeAllOf(owner)) {
      if (!process.recorder.recording()) continue;
      planner::TraceEvent event = EventOf(service, std::nullopt, kNoStream);
      event.op = planner::TraceEvent::Op::kFree;
      event.sequence = freed.sequence;
      event.block = freed.number;
      event.size_bytes = freed.size_bytes;
      process.recorder.Record(event);
    }
  } catch (const std::exception&) {  // the host is out of memory: they stay
  }
}

// Whatever it was that could not be waited for has ended with the context.
void ConcludeEnd(Process& process, DeviceService& service, DeviceMemory::Ending ending) noexcept {
  for (DeviceMemory::Owner owner = DeviceMemory::kNoOwner; TakeOwner(process, service.device(), ending, &owner);)
    FreeBlocksOf(process, service, owner);
  service.memory().ContextHasEnded(ending);
}

// The runtime makes its own calls for this device in another context from now on.
void Move(Process& process, DeviceService& service, CUcontext context) noexcept {
  process.learning.Remove(&service.learner());
  service.SetContext(context);
  Learn(process, service, context);
}

// The last context of a device ends, and what is served there with it.
EndingContext RetireService(Process& process, DeviceService& service, CUcontext context) noexcept {
  process.learning.Remove(&service.learner());
  // The service stays where it is, unreachable: other threads may be inside it.
  process.devices[service.device()].store(nullptr, std::memory_order_release);
  process.served_devices.fetch_sub(1);
  try {
    std::lock_guard lock(process.mutex);
    process.contexts[service.device()].clear();
    process.retired.push_back(&service);
  } catch (const std::exception&) {  // its figures are lost
  }
  if (process.exiting.load()) return {};
  // Mapped memory is no context's, so it has to be given back; what a context allocates ends with it.
  const ContextScope scope(process.driver, context);
  const RelaxedCapture relaxed(process.driver);
  if (!IsOver(process, context)) return {&service, context, 0};
  service.memory().Abandon();
  return {};
}

void ContextHasEnded(Process& process) noexcept {
  process.context_epoch.fetch_add(1);
  process.stream_epoch.fetch_add(1);
}

// Carries out on what is mapped already what has been said of `peer`. False, after a line, where the driver refuses.
bool ApplyAccess(Process& process, std::size_t owner, CUdevice peer) noexcept {
  DeviceService* service = process.devices[owner].load();
  if (service == nullptr) return true;
  const RelaxedCapture relaxed(process.driver);
  const CUresult result = service->memory().ApplyAccess(peer);
  if (result == CUDA_SUCCESS) return true;
  try {
    LogWarn("device " + std::to_string(peer) + " cannot reach all of the memory of device " + std::to_string(owner) +
            ": the driver says " + std::to_string(result) + " (STALLOC_DISABLE=1 leaves it to the driver)");
  } catch (const std::exception&) {  // the host is out of memory: the device's own fault will tell
  }
  return false;
}

}  // namespace

void NoteStreamDestroyed(CUstream stream) noexcept {
  Process* process = Serving();
  ForEachService(process, [&](DeviceService& service) {
    ContextScope scope(process->driver, service.context());
    service.memory().NoteStreamDestroyed(*OrderOf(stream, service.context()));
  });
  if (process != nullptr) process->stream_epoch.fetch_add(1);
}

EndingContext NoteContextEnds(CUcontext context) noexcept {
  ForgetLivingContext(context);
  Process* process = Serving();
  if (process == nullptr) return {};
  EndingContext ending;
  for (auto& slot : process->devices) {
    DeviceService* service = slot.load(std::memory_order_acquire);
    if (service == nullptr) continue;
    const CUcontext other = AnotherThan(*process, service->device(), context);
    if (other == nullptr && service->context() == context) {
      ending = RetireService(*process, *service, context);
      continue;
    }
    bool over = false;
    DeviceMemory::Ending number = 0;
    if (!process->exiting.load() && service->memory().IsUsedIn(context)) {
      over = IsOver(*process, context);
      number = service->memory().ForgetContext(context, over);
    }
    NameByEnding(*process, service->device(), context, number);
    if (over) {
      ConcludeEnd(*process, *service, number);
    } else if (number != 0) {
      ending = {service, context, number};
    }
    if (service->context() == context) Move(*process, *service, other);  // blocks of the other context are in there
  }
  ContextHasEnded(*process);
  for (std::size_t owner = 0; owner < kMaxDevices; ++owner)
    for (CUdevice peer = 0; (peer = process->peers[owner].Forget(context)) >= 0;) ApplyAccess(*process, owner, peer);
  return ending;
}

void NoteContextEnded(const EndingContext& ending, CUresult result) noexcept {
  Process* process = Serving();
  if (process == nullptr || ending.service == nullptr) return;
  DeviceService& service = *ending.service;
  if (ending.number == 0) {
    const RelaxedCapture relaxed(process->driver);
    return service.memory().Abandon();
  }
  if (result == CUDA_SUCCESS) return ConcludeEnd(*process, service, ending.number);
  service.memory().ContextStays(ending.number);
  NameByContext(*process, service.device(), ending.number, ending.context);
}

int DeviceOfContext(CUcontext context) noexcept {
  Process* process = Serving();
  if (process == nullptr) return -1;
  const std::lock_guard lock(process->mutex);
  for (CUdevice device = 0; static_cast<std::size_t>(device) < kMaxDevices; ++device)
    for (const Process::KnownContext& known : process->contexts[device])
      if (known.context == context) return device;
  return -1;
}

// Its blocks keep their number, by which they are the primary context's from now on.
void NoteGreenContextDestroyed(CUcontext context, CUcontext primary) noexcept {
  ForgetLivingContext(context);
  Process* process = Serving();
  const int device = DeviceOfContext(context);
  DeviceService* service = OnDevice(process, device);
  if (service == nullptr || primary == nullptr) return;
  {
    const std::lock_guard lock(process->mutex);
    for (Process::KnownContext& known : process->contexts[device])
      if (known.context == context) known.context = primary;
  }
  if (service->context() == context) Move(*process, *service, primary);
  // Nobody else says that its streams end. It may be current to another thread, and cannot be entered then; but what is
  // waited for in its primary context is waited for.
  const bool over = WaitIn(*process, context) == CUDA_SUCCESS || WaitIn(*process, primary) == CUDA_SUCCESS;
  service->memory().ForgetContext(context, over);
  ContextHasEnded(*process);
}

void NoteContextLeft() noexcept { t_context.epoch |= kInDoubt; }

void NoteNeed(Need need) noexcept {
  static constinit std::atomic<unsigned> noted{0};
  const unsigned bit = 1u << static_cast<unsigned>(need);
  Process* process = Serving();
  if (process == nullptr || (noted.fetch_or(bit) & bit) != 0) return;
  // What is served even so is of a pool, of which CUDA has no handles either.
  if (need == Need::kIpc && process->settings.ipc == Ipc::kOn) return;
  try {
    const Settings& settings = process->settings;
    if (need == Need::kIpc) {
      const bool kept = settings.ipc == Ipc::kAuto && !KeepNeed(settings, need).empty();
      LogWarn(
          std::string("a legacy IPC handle was asked for of memory that stalloc serves, which has none: ") +
          (kept ? "the next run of this program leaves cudaMalloc and cuMemAlloc to the driver, as STALLOC_IPC=on does"
                : "STALLOC_IPC=on leaves cudaMalloc and cuMemAlloc to the driver"));
    } else {
      const bool kept = !KeepNeed(settings, need).empty();
      LogWarn(std::string("this program sets up CUDA graph pools (torch.compile's reduce-overhead mode does), which "
                          "PyTorch does not have on its cudaMallocAsync backend: ") +
              (kept ? "the next run leaves PyTorch on its own allocator, as PYTORCH_ALLOC_CONF=backend:native does now"
                    : "PYTORCH_ALLOC_CONF=backend:native leaves PyTorch on its own allocator"));
    }
  } catch (const std::exception&) {  // the host is out of memory; the program's own error will tell
  }
}

void NotePeerAccess(int owner, int peer, CUcontext context, bool enabled) noexcept {
  Process* process = Serving();
  if (process == nullptr || !AreTwoDevices(owner, peer)) return;
  try {
    PeerAccess& access = process->peers[owner];
    enabled ? access.Enable(peer, context) : access.Disable(peer, context);
  } catch (const std::exception&) {  // the host is out of memory
    return;
  }
  ApplyAccess(*process, static_cast<std::size_t>(owner), peer);
}

void NotePoolAccess(int owner, int peer, CUmemAccess_flags flags) noexcept {
  Process* process = Serving();
  if (process == nullptr || !AreTwoDevices(owner, peer)) return;
  process->peers[owner].SetPool(peer, flags);
  ApplyAccess(*process, static_cast<std::size_t>(owner), peer);
}

bool HasAccess(int owner, int device) noexcept {
  Process* process = Serving();
  if (process == nullptr || owner < 0) return false;
  return owner == device || (AreTwoDevices(owner, device) && process->peers[owner].MayUse(device));
}

bool GiveAccess(int owner, int device) noexcept {
  Process* process = Serving();
  if (process == nullptr || !AreTwoDevices(owner, device)) return false;
  PeerAccess& access = process->peers[owner];
  if (access.Refused(device)) return false;
  access.Open(device);
  const bool carried_out = ApplyAccess(*process, static_cast<std::size_t>(owner), device);
  access.Opened(device, carried_out);
  return carried_out;
}

void NoteCaptureBegan() noexcept { DeviceMemory::captures_in_progress.fetch_add(1); }
void NoteCaptureEnded() noexcept { DeviceMemory::captures_in_progress.fetch_sub(1); }

void NoteEventRecorded(CUevent event, CUstream stream) noexcept {
  Process* process = Serving();
  if (process == nullptr) return;
  const Place place = PlaceOf(*process, stream);
  if (place.service == nullptr) return;
  try {
    RecordOrder(*process, *place.service, planner::TraceEvent::Op::kRecord, event,
                place.service->memory().NoteEventRecorded(event, *OrderOf(stream, place.context)));
  } catch (const std::exception&) {  // an order that is not known costs a wait at most
    place.service->memory().NoteEventDestroyed(event);
  }
}

void NoteStreamWaits(CUstream stream, CUevent event) noexcept {
  Process* process = Serving();
  if (process == nullptr) return;
  const Place place = PlaceOf(*process, stream);
  if (place.service == nullptr) return;
  try {
    RecordOrder(*process, *place.service, planner::TraceEvent::Op::kWait, event,
                place.service->memory().NoteStreamWaits(*OrderOf(stream, place.context), event));
  } catch (const std::exception&) {  // as above
  }
}

void NoteEventDestroyed(CUevent event) noexcept {
  ForEachService(Serving(), [&](DeviceService& service) { service.memory().NoteEventDestroyed(event); });
}

void NoteForkedChild() noexcept {
  SignalRequest::ForkedChild();
  if (Process* process = g_process.load()) process->recorder.ForkedChild();
  g_forked.store(true);
}

}  // namespace stalloc::runtime
