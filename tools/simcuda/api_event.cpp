// Entry points of events, except those that take a stream.
#include "call.h"

namespace stalloc::simcuda {
namespace {

CUresult FindEvent(Call& call, CUevent handle, std::shared_ptr<Event>* event) {
  *event = call.machine.events.Find(handle);
  if (*event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const EventRecord* record = (*event)->record.get();
  return record != nullptr && record->capture != nullptr ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

CUresult Elapsed(Call& call, float* milliseconds, CUevent start_handle, CUevent end_handle) {
  std::shared_ptr<Event> start, end;
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = FindEvent(call, start_handle, &start)) return error;
  if (const CUresult error = FindEvent(call, end_handle, &end)) return error;
  for (const Event* event : {start.get(), end.get()}) {
    if (event->record == nullptr || (event->flags & CU_EVENT_DISABLE_TIMING) != 0) return CUDA_ERROR_INVALID_HANDLE;
  }
  if (!start->record->fence.Passed() || !end->record->fence.Passed()) return CUDA_ERROR_NOT_READY;
  const auto nanoseconds = static_cast<double>(end->record->time_ns) - static_cast<double>(start->record->time_ns);
  *milliseconds = static_cast<float>(nanoseconds / 1e6);
  return CUDA_SUCCESS;
}

}  // namespace

SIMCUDA_EXPORT CUresult cuEventCreate(CUevent* handle, unsigned flags) {
  return Enter(SIMCUDA_ENTRY(cuEventCreate), [&](Call& call) {
    constexpr unsigned kKnown = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    if (handle == nullptr || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
    auto event = std::make_shared<Event>();
    event->context = call.context;
    event->flags = flags;
    *handle = call.machine.events.Add(std::move(event));
    call.context->event_handles.insert(*handle);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuEventDestroy(CUevent handle) {
  return Enter(SIMCUDA_ENTRY(cuEventDestroy), [&](Call& call) {
    const std::shared_ptr<Event> event = call.machine.events.Remove(handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    event->context->event_handles.erase(handle);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuEventQuery(CUevent handle) {
  return Enter(SIMCUDA_ENTRY(cuEventQuery), [&](Call& call) {
    std::shared_ptr<Event> event;
    if (const CUresult error = FindEvent(call, handle, &event)) return error;
    const std::shared_ptr<EventRecord> record = event->record;
    const bool done = record == nullptr || call.machine.scheduler.Poll(record->fence);
    if (event->context->error != CUDA_SUCCESS) return event->context->error;
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

SIMCUDA_EXPORT CUresult cuEventSynchronize(CUevent handle) {
  return Enter(SIMCUDA_ENTRY(cuEventSynchronize), [&](Call& call) {
    std::shared_ptr<Event> event;
    if (const CUresult error = FindEvent(call, handle, &event)) return error;
    if (const std::shared_ptr<EventRecord> record = event->record) call.machine.scheduler.Wait(record->fence);
    TrimPools(call.machine, event->context->device);
    return event->context->error;
  });
}

#undef cuEventElapsedTime
SIMCUDA_EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return Enter(EntryPoint::k_cuEventElapsedTime, [&](Call& call) { return Elapsed(call, milliseconds, start, end); });
}

SIMCUDA_EXPORT CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  return Enter(EntryPoint::k_cuEventElapsedTime_v2,
               [&](Call& call) { return Elapsed(call, milliseconds, start, end); });
}

}  // namespace stalloc::simcuda
