#include "runtime/service/service.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "runtime/call_sites/call_site.h"
#include "runtime/device/capture.h"
#include "runtime/service/history.h"
#include "service/served_process.h"

namespace stalloc::runtime {

namespace {

bool Capturing(const Process& process, StreamOrder order) noexcept {
  if (DeviceMemory::captures_in_progress.load(std::memory_order_relaxed) == 0) return false;
  if (!order) return true;  // a request without a stream while somebody captures: the driver decides
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return process.driver.cuStreamIsCapturing(*order, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
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

void RecordAllocation(Process& process, const DeviceService& service, std::size_t size_bytes, StreamOrder order,
                      std::uint64_t call_site, const DeviceMemory::Allocation& made) noexcept {
  if (!process.recorder.recording()) return;
  planner::TraceEvent event = EventOf(service, order, made.stream);
  event.op = planner::TraceEvent::Op::kAllocate;
  event.served = made.planned ? planner::TraceEvent::Served::kPlanned : planner::TraceEvent::Served::kOnline;
  event.sequence = made.sequence;
  event.block = made.number;
  event.size_bytes = size_bytes;
  event.call_site = call_site;
  process.recorder.Record(event);
}

std::uint64_t NumberOf(StreamOrder order) noexcept { return order ? reinterpret_cast<std::uint64_t>(*order) : 0; }

CUresult FreeAndRecord(Process& process, DeviceService& service, CUdeviceptr address, StreamOrder order,
                       const std::optional<DeviceMemory::Order>& in_order, ContextOnDemand* context) {
  DeviceMemory::BlockInfo freed;
  StreamIndex stream = kNoStream;
  const CUresult result = service.memory().Free(address, in_order, &freed, &stream, context);
  if (freed.number != 0) RecordFree(process, service, order, stream, freed);
  if (freed.number != 0 && History::On())
    History::Freed(service.device(), freed.address, freed.size_bytes, NumberOf(order));
  return result;
}

std::uint64_t TakeCallSite(const Process& process, TimeSpent& spent, std::size_t size_bytes) {
  thread_local constinit unsigned taken = 0;
  if (++taken % kCallSitesPerSample != 0) return CallSiteHash(process.settings.stack_depth, size_bytes);
  const auto begun = std::chrono::steady_clock::now();
  const std::uint64_t hash = CallSiteHash(process.settings.stack_depth, size_bytes);
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begun;
  spent.Add(Cause::kCallSites, static_cast<std::uint64_t>(took.count()) * kCallSitesPerSample);
  return hash;
}

void NoteInHistory(const Process& process, const DeviceService& service, std::size_t size_bytes) noexcept {
  if (!History::On()) return;
  std::size_t free_bytes = 0, total_bytes = 0;
  process.driver.cuMemGetInfo(&free_bytes, &total_bytes);
  History::OutOfMemory(service.device(), size_bytes, free_bytes);
}

// Throws for want of host memory.
Answer AllocateAt(Process& process, const Place& place, CUdeviceptr* address, std::size_t size_bytes, StreamOrder order,
                  CUresult* result) {
  DeviceMemory& memory = place.service->memory();
  const bool wanted = memory.WantsCallSite(size_bytes);
  // Whoever reads the trace has no plan that knows the request without. Memory is served as it is without a trace.
  const std::uint64_t call_site = wanted || process.traced ? TakeCallSite(process, memory.spent(), size_bytes) : 0;
  ContextOnDemand context(process.driver, place.service->context(), place.context);
  // Without a stream it is the current context's, which the thread has just been told.
  const DeviceMemory::Owner owner = order ? DeviceMemory::kNoOwner : t_context.owner;
  const DeviceMemory::Allocation made =
      memory.Allocate(size_bytes, OrderOf(order, place.context), wanted ? call_site : 0, &context, owner);
  if (made.result == CUDA_SUCCESS) {
    *address = made.address;
    *result = CUDA_SUCCESS;
    if (process.traced) [[unlikely]]
      RecordAllocation(process, *place.service, size_bytes, order, call_site, made);
    if (History::On()) [[unlikely]]
      History::Allocated(place.service->device(), made.address, size_bytes, NumberOf(order));
    return Answer::kServed;
  }
  if (made.result == CUDA_ERROR_OUT_OF_MEMORY && place.service->limit_bytes()) {
    context.Enter();
    NoteInHistory(process, *place.service, size_bytes);
    place.service->out_of_memory().Failed(process.driver, *place.service, {.size_bytes = size_bytes});
    *result = CUDA_ERROR_OUT_OF_MEMORY;
    return Answer::kServed;
  }
  return Answer::kPassThrough;
}

// What CUDA says to a free while somebody captures. CUDA_SUCCESS: nothing against it.
//
// In stream order on a capturing stream it would be a node of the graph, and can only be of the graph's own memory.
// Without a stream it is one of the calls that a capture may forbid, and that end a capture where it does; so is asking
// for an event.
CUresult RefusedByCapture(Process& process, StreamOrder order, CUcontext context) noexcept {
  if (DeviceMemory::captures_in_progress.load(std::memory_order_relaxed) == 0) return CUDA_SUCCESS;
  if (order) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult result = process.driver.cuStreamIsCapturing(*order, &status);
    return result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE ? CUDA_ERROR_INVALID_VALUE : result;
  }
  const ContextScope scope(process.driver, context);
  CUevent event = nullptr;
  {
    const RelaxedCapture relaxed(process.driver);
    if (process.driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return CUDA_SUCCESS;
  }
  const CUresult result = process.driver.cuEventQuery(event);
  process.driver.cuEventDestroy(event);
  return result;
}

// A block that is freed on another device's stream. Its own device cannot record anything there, so the host waits for
// that stream; what the program had in mind is then behind any stream of the device's own.
std::optional<DeviceMemory::Order> WaitOnHost(Process& process, CUstream stream, CUcontext context) noexcept {
  const RelaxedCapture relaxed(process.driver);
  if (process.driver.cuStreamSynchronize(stream) != CUDA_SUCCESS) return std::nullopt;
  return OrderOf(CU_STREAM_LEGACY, context);
}

// The order of a free, for the device whose memory it is. Which context is current is asked only where there are
// several.
std::optional<DeviceMemory::Order> OrderOfFree(Process& process, const DeviceService& service,
                                               StreamOrder order) noexcept {
  if (!order || !g_several_contexts.load(std::memory_order_relaxed)) [[likely]]
    return OrderOf(order, service.context());
  Place place = PlaceOf(process, order);
  if (place.context == nullptr) place = PlaceOfStream(process, *order);  // no context is current
  if (place.context == nullptr) return OrderOf(order, service.context());
  return place.service == &service ? OrderOf(order, place.context) : WaitOnHost(process, *order, service.context());
}

}  // namespace

Answer Allocate(CUdeviceptr* address, std::size_t size_bytes, StreamOrder order, CUresult* result) noexcept {
  Process* process = Serving();
  if (process == nullptr) return Answer::kPassThrough;
  const Place place = PlaceOf(*process, order);
  if (place.service == nullptr || !Wanted(*process, order) || Capturing(*process, order)) return Answer::kPassThrough;
  try {
    return AllocateAt(*process, place, address, size_bytes, order, result);
  } catch (const std::exception&) {  // the host is out of memory: the driver will say what it can do
    return Answer::kPassThrough;
  }
}

Answer Free(CUdeviceptr address, StreamOrder order, CUresult* result) noexcept {
  Process* process = Serving();
  if (process == nullptr) return Answer::kPassThrough;
  DeviceService* service = Owner(*process, address);
  if (service == nullptr) return Answer::kPassThrough;
  try {
    // A stream that the program made names its context itself, and a free without a stream needs none.
    *result = CheckCurrentContext(*process, order && IsDefaultStream(*order));
    if (*result == CUDA_SUCCESS) *result = RefusedByCapture(*process, order, service->context());
    if (*result != CUDA_SUCCESS) return Answer::kServed;
    const std::optional<DeviceMemory::Order> in_order = OrderOfFree(*process, *service, order);
    ContextOnDemand context(process->driver, service->context(), in_order ? in_order->context : nullptr);
    *result = process->traced || History::On() ? FreeAndRecord(*process, *service, address, order, in_order, &context)
                                               : service->memory().Free(address, in_order, nullptr, nullptr, &context);
  } catch (const std::exception&) {
    *result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  return Answer::kServed;
}

int DeviceOf(StreamOrder order) noexcept {
  Process* process = Serving();
  if (process == nullptr) return -1;
  const Place place = PlaceOf(*process, order);
  return place.service == nullptr ? -1 : place.service->device();
}

bool ServesAmongSeveralDevices() noexcept {
  Process* process = Serving();
  return process != nullptr && process->several_devices.load(std::memory_order_relaxed);
}

int OwnerOf(CUdeviceptr address, CUcontext* context) noexcept {
  Process* process = Serving();
  DeviceService* service = process == nullptr ? nullptr : Owner(*process, address);
  if (service == nullptr) return -1;
  *context = service->context();
  return service->device();
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

MemoryCounters CountersOf(int device) noexcept {
  DeviceService* service = OnDevice(Serving(), device);
  return service == nullptr ? MemoryCounters{} : service->memory().Counters();
}

std::string HistoryText(int device, bool with_events) {
  DeviceService* service = OnDevice(Serving(), device);
  return History::Text(device, service == nullptr ? MemoryLayout{} : service->memory().Layout(), with_events);
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

void NoteOutOfMemory(int device, std::size_t size_bytes, const char* function) noexcept {
  Process* process = Serving();
  DeviceService* service = OnDevice(process, device);
  if (service == nullptr || service->memory().Counters().peak_reserved_bytes == 0) return;  // nothing of ours is there
  service->memory().NoteRefused(std::max<std::size_t>(size_bytes, kPageBytes));
  NoteInHistory(*process, *service, size_bytes);
  const ContextScope scope(process->driver, service->context());
  service->out_of_memory().Failed(process->driver, *service, {.size_bytes = size_bytes, .function = function});
}

void NotePassedThrough(std::size_t size_bytes) noexcept {
  Process* process = Serving();
  if (process == nullptr || size_bytes == 0) return;
  process->passed_requests.fetch_add(1, std::memory_order_relaxed);
  process->passed_bytes.fetch_add(size_bytes, std::memory_order_relaxed);
}

}  // namespace stalloc::runtime
