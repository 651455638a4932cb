// The part of the service that is told of contexts that end: in two steps, for the driver may refuse.
//
// Before the driver is asked, nothing is done that cannot be undone: what belongs to the context is found by a number
// from then on, since another context may have its handle as soon as it has ended.
#include <algorithm>
#include <exception>
#include <mutex>
#include <vector>

#include "runtime/device/capture.h"
#include "runtime/service/service.h"
#include "service/context_ends.h"
#include "service/served_process.h"

namespace stalloc::runtime {

namespace {

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

bool MayEnter(Process& process, CUcontext context) noexcept {
  return ContextScope(process.driver, context).result() == CUDA_SUCCESS;
}

// What a context has allocated without a stream ends with it; what it has taken from the device's pool does not.
void FreeBlocksOf(Process& process, DeviceService& service, DeviceMemory::Owner owner) noexcept {
  if (owner == DeviceMemory::kNoOwner) return;
  try {
    for (const DeviceMemory::BlockInfo& freed : service.memory().FreeAllOf(owner))
      RecordFree(process, service, std::nullopt, kNoStream, freed);
  } catch (const std::exception&) {  // the host is out of memory: they stay
  }
}

// The runtime makes its own calls for this device in another context from now on.
void Move(Process& process, DeviceService& service, CUcontext context) noexcept {
  process.learning.Remove(&service.learner());
  service.SetContext(context);
  Learn(process, service, context);
}

// The last context of a device ends, and what is served there with it. Other threads may be inside the service: it is
// out of reach, and nothing is served on the device until it is known whether it comes back.
void TakeOut(Process& process, DeviceService& service) noexcept {
  process.learning.Remove(&service.learner());
  process.last_ends[service.device()].store(true);
  process.devices[service.device()].store(nullptr, std::memory_order_release);
}

void PutBack(Process& process, DeviceService& service, CUcontext context) noexcept {
  process.devices[service.device()].store(&service, std::memory_order_release);
  process.last_ends[service.device()].store(false);
  Learn(process, service, context);
}

void Retire(Process& process, DeviceService& service) noexcept {
  service.learner().End();
  process.served_devices.fetch_sub(1);
  try {
    std::lock_guard lock(process.mutex);
    process.contexts[service.device()].clear();
    process.retired.push_back(&service);
  } catch (const std::exception&) {  // its figures are lost
  }
  if (!process.exiting.load()) {
    // Mapped memory is no context's, so it has to be given back; what a context allocates ends with it.
    const RelaxedCapture relaxed(process.driver);
    service.memory().Abandon();
  }
  process.last_ends[service.device()].store(false);
}

// Whatever it was that could not be waited for has ended with the context; not with a green one.
void Conclude(Process& process, const EndingContext& ending) noexcept {
  DeviceService& service = *ending.service;
  if (ending.last) return Retire(process, service);
  if (ending.primary != nullptr) {
    NameByContext(process, service.device(), ending.number, ending.primary);
    return service.memory().ContextHasEnded(ending.number, false);
  }
  for (DeviceMemory::Owner owner = DeviceMemory::kNoOwner; TakeOwner(process, service.device(), ending.number, &owner);)
    FreeBlocksOf(process, service, owner);
  service.memory().ContextHasEnded(ending.number);
}

void Undo(Process& process, const EndingContext& ending) noexcept {
  DeviceService& service = *ending.service;
  service.memory().ContextStays(ending.number);
  NameByContext(process, service.device(), ending.number, ending.context);
  if (ending.last) PutBack(process, service, ending.context);
}

// What threads remember of contexts and streams is not so any more.
void CountEnd(Process& process) noexcept {
  process.context_epoch.fetch_add(1);
  process.stream_epoch.fetch_add(1);
}

}  // namespace

EndingContext NoteContextEnds(CUcontext context) noexcept {
  EndingContext ending{.context = context};
  LivingContextEnds(context);
  CapturesContextEnds(context);
  Process* process = Serving();
  if (process == nullptr) return ending;
  PeersContextEnds(*process, context);
  const bool exiting = process->exiting.load();
  ForEachService(process, [&](DeviceService& service) {
    const CUcontext other = AnotherThan(*process, service.device(), context);
    const bool last = other == nullptr && service.context() == context;
    if (last) {
      ending.service = &service;
      ending.last = true;
      TakeOut(*process, service);
    }
    if (!exiting && service.memory().IsUsedIn(context)) {
      ending.service = &service;
      ending.number = service.memory().ForgetContext(context, context);
      NameByEnding(*process, service.device(), context, ending.number);
    }
    // Blocks of the other context are in there.
    if (!last && service.context() == context) Move(*process, service, other);
  });
  CountEnd(*process);
  return ending;
}

// Its blocks keep their number, by which they are the primary context's from then on.
EndingContext NoteGreenContextEnds(CUcontext context, CUcontext primary) noexcept {
  EndingContext ending{.context = context, .primary = primary};
  Process* process = Serving();
  DeviceService* service = OnDevice(process, DeviceOfContext(context));
  LivingContextEnds(context);
  CapturesContextEnds(context);
  if (service == nullptr || primary == nullptr || !service->memory().IsUsedIn(context)) return ending;
  ending.service = service;
  if (service->context() == context) Move(*process, *service, primary);
  // Nobody else says that its streams end. It may be another thread's, which is no end; but what is waited for in its
  // primary context is waited for.
  ending.number = service->memory().ForgetContext(context, MayEnter(*process, context) ? context : primary);
  NameByEnding(*process, service->device(), context, ending.number);
  CountEnd(*process);
  return ending;
}

void NoteContextEnded(const EndingContext& ending, bool ended) noexcept {
  LivingContextEnded(ending.context, ended);
  CapturesContextEnded(ending.context, ended);
  Process* process = Serving();
  if (process == nullptr) return;
  PeersContextEnded(*process, ending.context, ended);
  if (ending.service != nullptr) ended ? Conclude(*process, ending) : Undo(*process, ending);
  CountEnd(*process);
}

int DeviceOfContext(CUcontext context) noexcept {
  if (Process* process = Serving()) {
    const std::lock_guard lock(process->mutex);
    for (CUdevice device = 0; static_cast<std::size_t>(device) < kMaxDevices; ++device)
      for (const Process::KnownContext& known : process->contexts[device])
        if (known.context == context) return device;
  }
  return DeviceOfLivingContext(context);
}

void NoteContextLeft() noexcept { t_context.epoch |= kInDoubt; }

}  // namespace stalloc::runtime
