// The part of DeviceMemory that follows the order between streams: markers recorded and polled, waiting for everything,
// and what the program does with its own streams and events. No driver call is made under the lock.
#include <algorithm>
#include <array>
#include <new>

#include "runtime/device/capture.h"
#include "runtime/device/device_memory.h"

namespace stalloc::runtime {

// Under the lock.
NamedStream DeviceMemory::NameOf(StreamIndex stream) const {
  NamedStream named{.handle = streams_.HandleOf(stream), .is_anothers = !streams_.HasNameHere(stream)};
  if (!contexts_.several()) return named;
  named.context = streams_.ContextOf(stream);
  named.may_enter = contexts_.MayEnter(named.context);
  return named;
}

// An event of `context`, which is current, in the life that it had when it was chosen: it may have ended meanwhile. The
// result's `event` is null where there is none to be had.
DeviceMemory::Event DeviceMemory::NewEvent(CUcontext context, UsedContexts::Life life) {
  {
    std::lock_guard lock(mutex_);
    const auto idle = std::find_if(idle_events_.rbegin(), idle_events_.rend(),
                                   [&](const Event& event) { return event.context == context && event.life == life; });
    if (idle != idle_events_.rend()) {
      const Event event = *idle;
      *idle = idle_events_.back();
      idle_events_.pop_back();
      return event;
    }
  }
  Event made{nullptr, context, life};
  if (driver_.cuEventCreate(&made.event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) made.event = nullptr;
  return made;
}

// Under the lock. An event of a context that has ended meanwhile ended with it, and its handle may be another's.
// Without host memory to keep it in, it is lost until its context ends.
void DeviceMemory::PutBack(const Event& event) noexcept {
  try {
    if (contexts_.LifeOf(event.context) == event.life) idle_events_.push_back(event);
  } catch (const std::bad_alloc&) {
  }
}

// The same; its stream counts as without a marker then.
void DeviceMemory::PutBack(const StreamTable::Marker& marker) noexcept {
  try {
    if (contexts_.LifeOf(marker.context) == marker.life) streams_.AddMarker(marker);
  } catch (const std::bad_alloc&) {
  }
}

void DeviceMemory::RecordMarker(StreamIndex stream) {
  NamedStream named;
  CUcontext context = nullptr;
  UsedContexts::Life life = UsedContexts::kNoLife;
  Fence here;
  std::optional<HandlesInUse::Use> use;
  {
    std::lock_guard lock(mutex_);
    if (streams_.Retired(stream)) return;
    named = NameOf(stream);
    context = streams_.ContextOf(stream);
    life = contexts_.LifeOf(context);
    here = streams_.Here(stream);
    use.emplace(in_use_, context, named.handle);
  }
  const StreamScope scope(driver_, named);
  if (!scope.names() || Captures(driver_, named.handle)) return;
  if (driver_.cuStreamQuery(named.handle) == CUDA_SUCCESS) {  // idle: nothing to mark
    std::lock_guard lock(mutex_);
    streams_.Pass(here.stream, here.position);
    return;
  }
  const Event event = NewEvent(context, life);
  if (event.event == nullptr) return;
  const CUresult result = driver_.cuEventRecord(event.event, named.handle);
  std::lock_guard lock(mutex_);
  if (result != CUDA_SUCCESS) return PutBack(event);
  PutBack(StreamTable::Marker{event.event, context, event.life, here.stream, here.position});
  ++counters_.markers_recorded;
}

void DeviceMemory::RecordMarkers() {
  const SpentTimer timer(spent(), Cause::kMarkers);
  RelaxedCapture relaxed(driver_);
  std::array<StreamIndex, kMaxStreams> uncovered;
  std::size_t count = 0;
  {
    std::lock_guard lock(mutex_);
    streams_.VisitUncovered([&](StreamIndex stream) { uncovered[count++] = stream; });
  }
  for (std::size_t i = 0; i < count; ++i) RecordMarker(uncovered[i]);
  PollMarkers();
}

void DeviceMemory::PollMarkers() {
  RelaxedCapture relaxed(driver_);
  // More than these are not pending for long: the next look finds them.
  std::array<StreamTable::Marker, 64> markers;
  std::size_t count = 0;
  std::optional<HandlesInUse::Use> use;
  {
    std::lock_guard lock(mutex_);
    count = streams_.TakeMarkers(markers);
    use.emplace(in_use_, nullptr);
  }
  // Markers of a stream pass in order: the newest that has passed speaks for all before it.
  std::array<bool, std::tuple_size_v<decltype(markers)>> passed{};
  std::array<std::uint64_t, kMaxStreams> reached{};
  for (std::size_t i = count; i-- > 0;) {
    if (markers[i].position <= reached[markers[i].stream]) {
      passed[i] = true;
    } else if (driver_.cuEventQuery(markers[i].event) == CUDA_SUCCESS) {
      passed[i] = true;
      reached[markers[i].stream] = markers[i].position;
    }
  }
  std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < count; ++i) {
    if (passed[i]) {
      streams_.Pass(markers[i].stream, markers[i].position);
      PutBack(Event{markers[i].event, markers[i].context, markers[i].life});
    } else {
      PutBack(markers[i]);
    }
  }
}

// Waits for all work that may use memory of `owner`. A context's own memory is waited for in that context alone, as
// CUDA does: another's work may itself be waiting for this thread. What is nobody's is waited for in every context:
// one's work says nothing of another's. False: some of it could not be waited for. `here` receives what the driver says
// in the owner's context, or else in the current one.
bool DeviceMemory::WaitForContexts(Owner owner, CUresult* here) {
  CUcontext of_owner = nullptr;
  std::vector<CUcontext> contexts;
  {
    std::lock_guard lock(mutex_);
    of_owner = contexts_.ToWaitInFor(owner);
    if (of_owner == nullptr) contexts = contexts_.ToWaitIn();
  }
  if (of_owner != nullptr) {
    *here = WaitIn(driver_, of_owner);
    return *here == CUDA_SUCCESS;
  }
  *here = driver_.cuCtxSynchronize();
  bool all = *here == CUDA_SUCCESS;
  const CUcontext waited_in = contexts.empty() ? nullptr : CurrentContext(driver_);
  for (const CUcontext context : contexts) {
    if (context == waited_in) continue;
    const CUresult result = WaitIn(driver_, context);
    all = all && result == CUDA_SUCCESS;
  }
  return all;
}

bool DeviceMemory::SynchroniseAll() {
  if (captures_in_progress.load(std::memory_order_relaxed) != 0) return false;
  StreamTable::Positions reached;
  {
    std::lock_guard lock(mutex_);
    reached = streams_.HereOfAll();
  }
  CUresult here = CUDA_SUCCESS;
  if (!WaitForContexts(kNoOwner, &here)) return false;
  std::lock_guard lock(mutex_);
  for (StreamIndex s = 1; s <= streams_.count(); ++s) streams_.Pass(s, reached[s]);
  return true;
}

void DeviceMemory::FinishDeferred() {
  std::uint64_t last = 0;  // what is deferred during the wait was not waited for
  {
    std::lock_guard lock(mutex_);
    if (deferred_.empty() || captures_in_progress.load(std::memory_order_relaxed) != 0) return;
    last = last_deferred_;
  }
  CUresult here = CUDA_SUCCESS;
  if (!WaitForContexts(kNoOwner, &here)) return;
  std::lock_guard lock(mutex_);
  std::erase_if(deferred_, [&](const Deferred& d) {
    if (d.number > last) return false;
    ReleaseBlock(d.address, d.block, Fence{});
    return true;
  });
}

void DeviceMemory::NoteContext(CUcontext context, CUcontext waits_in, Owner owner) {
  std::lock_guard lock(mutex_);
  contexts_.Add(context, waits_in, owner);
}

bool DeviceMemory::IsUsedIn(CUcontext context) const {
  std::lock_guard lock(mutex_);
  return contexts_.Has(context);
}

DeviceMemory::Ending DeviceMemory::ForgetContext(CUcontext context, CUcontext wait_in) noexcept {
  StreamTable::Positions executed{};
  if (wait_in != nullptr) {
    StreamTable::Positions reached;
    {
      std::lock_guard lock(mutex_);
      reached = streams_.HereOfAll();
    }
    const RelaxedCapture relaxed(driver_);
    if (WaitIn(driver_, wait_in) == CUDA_SUCCESS) executed = reached;
  }
  const Ending ending = TakeOutContext(context, executed);
  in_use_.AwaitContext(context);
  return ending;
}

DeviceMemory::Ending DeviceMemory::TakeOutContext(CUcontext context, const StreamTable::Positions& executed) noexcept {
  std::lock_guard lock(mutex_);
  const Ending ending = ++last_ending_;
  contexts_.End(context, ending);
  stalls_.Forget();
  streams_.RetireAllOf(context, ending, executed);
  std::erase_if(idle_events_, [&](const Event& event) { return event.context == context; });
  if (!multi_stream_ && first_stream_ != kNoStream && streams_.Retired(first_stream_)) {
    if (streams_.Executed(streams_.Here(first_stream_))) {
      first_stream_ = kNoStream;  // everything free was freed in its order, and is behind all of its work
    } else {
      FenceAllBehind(first_stream_);
    }
  }
  return ending;
}

void DeviceMemory::ContextHasEnded(Ending ending, bool over) noexcept {
  std::lock_guard lock(mutex_);
  if (over) streams_.PassAllOf(ending);
  contexts_.Remove(ending);
}

void DeviceMemory::ContextStays(Ending ending) noexcept {
  std::lock_guard lock(mutex_);
  contexts_.Stays(ending);
}

void DeviceMemory::NoteStreamDestroyed(Order order) noexcept {
  StreamIndex stream = kNoStream;
  {
    std::lock_guard lock(mutex_);
    stream = streams_.FindExisting(order.stream, order.context);
    if (stream == kNoStream) return;
    // Another may be known by its events alone: what is free was not freed in its order.
    if (!multi_stream_ && stream == first_stream_) FenceAllBehind(stream);
  }
  try {
    RecordMarker(stream);
    bool covered = false;
    {
      std::lock_guard lock(mutex_);
      covered = !streams_.NeedsMarker(stream, 1);
    }
    if (!covered) SynchroniseAll();
  } catch (const std::bad_alloc&) {  // the next wait for all work will do
  }
  {
    std::lock_guard lock(mutex_);
    streams_.Retire(stream);
  }
  in_use_.AwaitStream(order.stream);
}

// Streams that make no request are followed too: order runs through them (a communication library's own streams), and
// what one stream knows of another reaches a third.
DeviceMemory::Record DeviceMemory::NoteEventRecords(CUevent event, Order order) {
  std::lock_guard lock(mutex_);
  if (!multi_stream_ && recorder_ == nullptr) return StreamTable::kNoRecord;
  return streams_.EventRecords(event, streams_.IndexOf(order.stream, order.context));
}

DeviceMemory::Noted DeviceMemory::NoteEventRecorded(CUevent event, Order order, Record record) {
  if (record == StreamTable::kNoRecord) return {};
  std::lock_guard lock(mutex_);
  streams_.EventRecorded(event, record);
  if (recorder_ == nullptr) return {};
  return {streams_.IndexOf(order.stream, order.context), recorder_->NextSequence()};
}

DeviceMemory::Record DeviceMemory::RecordOf(CUevent event) const noexcept {
  std::lock_guard lock(mutex_);
  return streams_.RecordOf(event);
}

DeviceMemory::Noted DeviceMemory::NoteStreamWaits(Order order, CUevent event, Record record) {
  std::lock_guard lock(mutex_);
  if (!multi_stream_ && recorder_ == nullptr) return {};
  const StreamIndex stream = streams_.IndexOf(order.stream, order.context);
  streams_.StreamWaits(stream, event, record, [&](Fence fence) {
    if (!seen_.on()) return;
    SeenLog::Entry* seen = seen_.Add();
    if (seen == nullptr) return;
    seen->stream = stream;
    seen->fence = fence;
    seen->order = true;
  });
  return {stream, recorder_ ? recorder_->NextSequence() : 0};
}

void DeviceMemory::NoteEventDestroyed(CUevent event) {
  std::lock_guard lock(mutex_);
  streams_.EventDestroyed(event);
}

}  // namespace stalloc::runtime
