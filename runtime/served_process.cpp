#include "served_process.h"

#include <algorithm>
#include <string>

#include "runtime/log.h"

namespace stalloc::runtime {

constinit std::atomic<Process*> g_process{nullptr};
constinit std::atomic<bool> g_forked{false};
constinit thread_local ContextCache t_context __attribute__((tls_model("initial-exec"))) = {nullptr, 0, nullptr};
constinit thread_local StreamCache t_streams __attribute__((tls_model("initial-exec"))) = {};

namespace {

DeviceService* MakeService(Process& process, CUdevice device, CUcontext context) {
  std::string refusal;
  std::unique_ptr<DeviceService> made;
  try {
    made = DeviceService::Make(process.driver, process.settings, device, context, process.peers[device], &refusal);
  } catch (const std::exception& e) {
    refusal = e.what();
  }
  int count = 0;
  if (process.driver.cuDeviceGetCount(&count) == CUDA_SUCCESS && count > 1) process.several_devices.store(true);
  DeviceService* service = nullptr;
  {
    std::lock_guard lock(process.mutex);
    if (DeviceService* first = process.devices[device].load()) return first;  // another thread was quicker
    if (!made) {
      // Without a reason it is the context, not the device: it is broken or destroyed, and the next may be sound.
      if (!refusal.empty() && !process.refused[device].exchange(true))
        LogWarn("device " + std::to_string(device) + " is not served: " + refusal);
      return nullptr;
    }
    service = made.release();
    if (process.recorder.recording()) service->memory().SetRecorder(&process.recorder);
    process.devices[device].store(service, std::memory_order_release);
    process.served_devices.fetch_add(1);
  }
  if (process.settings.planning) process.learning.Add(&service->learner(), context);
  return service;
}

void NoteContext(Process& process, CUdevice device, CUcontext context) {
  const std::lock_guard lock(process.mutex);
  std::vector<CUcontext>& known = process.contexts[device];
  if (std::find(known.begin(), known.end(), context) == known.end()) known.push_back(context);
}

DeviceService* ServiceOn(Process& process, CUdevice device, CUcontext context) {
  if (static_cast<std::size_t>(device) >= kMaxDevices) return nullptr;
  DeviceService* service = process.devices[device].load(std::memory_order_acquire);
  if (service == nullptr && !process.refused[device].load()) service = MakeService(process, device, context);
  if (service != nullptr) NoteContext(process, device, context);
  return service;
}

Place CurrentPlace(Process& process) noexcept {
  Place place{nullptr, CurrentContext(process.driver)};
  if (place.context == nullptr) return place;
  const std::uint64_t epoch = process.context_epoch.load(std::memory_order_relaxed);
  if (t_context.context == place.context && t_context.epoch == epoch) {
    place.service = t_context.service;
    return place;
  }
  CUdevice device = 0;
  if (process.driver.cuCtxGetDevice(&device) != CUDA_SUCCESS) return place;
  place.service = ServiceOn(process, device, place.context);
  if (place.service != nullptr || process.refused[device].load()) t_context = {place.context, epoch, place.service};
  return place;
}

// Of a stream that may be another device's. Rarely asked: each thread remembers the answer for some streams.
Place StreamPlace(Process& process, CUstream stream) noexcept {
  Place place;
  if (process.driver.cuStreamGetCtx(stream, &place.context) != CUDA_SUCCESS || place.context == nullptr) return {};
  ContextScope scope(process.driver, place.context);
  CUdevice device = 0;
  if (process.driver.cuCtxGetDevice(&device) != CUDA_SUCCESS) return {};
  place.service = ServiceOn(process, device, place.context);
  return place;
}

}  // namespace

Place FindPlace(Process& process, StreamOrder order) noexcept {
  const Place here = CurrentPlace(process);
  // With no context the driver must be let speak.
  if (here.context == nullptr || !order || IsDefaultStream(*order)) return here;
  const std::uint64_t epoch = process.stream_epoch.load(std::memory_order_acquire);
  // With one device there is no other.
  Place place = here;
  if (process.several_devices.load(std::memory_order_relaxed)) {
    place = StreamPlace(process, *order);
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

}  // namespace stalloc::runtime
