// The part of DeviceMemory that follows the order between streams: markers recorded and polled, waiting for everything,
// and what the program does with its own streams and events. No driver call is made under the lock.
#include <algorithm>
#include <array>

#include "runtime/capture.h"
#include "runtime/device_memory.h"

namespace stalloc::runtime {

CUevent DeviceMemory::NewEvent() {
  {
    std::lock_guard lock(mutex_);
    if (!idle_events_.empty()) {
      const CUevent event = idle_events_.back();
      idle_events_.pop_back();
      return event;
    }
  }
  CUevent event = nullptr;
  return driver_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS ? event : nullptr;
}

void DeviceMemory::RecordMarker(StreamIndex stream) {
  CUstream handle = nullptr;
  Fence here;
  {
    std::lock_guard lock(mutex_);
    handle = streams_.HandleOf(stream);
    here = streams_.Here(stream);
  }
  if (Captures(driver_, handle)) return;
  if (driver_.cuStreamQuery(handle) == CUDA_SUCCESS) {  // idle: nothing to mark
    std::lock_guard lock(mutex_);
    streams_.Pass(here.stream, here.position);
    return;
  }
  const CUevent event = NewEvent();
  if (event == nullptr) return;
  const CUresult result = driver_.cuEventRecord(event, handle);
  std::lock_guard lock(mutex_);
  if (result != CUDA_SUCCESS) {
    idle_events_.push_back(event);
    return;
  }
  streams_.AddMarker({event, here.stream, here.position});
  ++counters_.markers_recorded;
}

void DeviceMemory::RecordMarkers() {
  RelaxedCapture relaxed(driver_);
  std::array<StreamIndex, kMaxStreams> uncovered;
  std::size_t count = 0;
  {
    std::lock_guard lock(mutex_);
    streams_.VisitUncovered([&](StreamIndex stream) {
      // A per-thread default stream can be named by its own thread alone; its owner is not known here.
      if (streams_.HandleOf(stream) != CU_STREAM_PER_THREAD) uncovered[count++] = stream;
    });
  }
  for (std::size_t i = 0; i < count; ++i) RecordMarker(uncovered[i]);
  PollMarkers();
}

void DeviceMemory::PollMarkers() {
  RelaxedCapture relaxed(driver_);
  // More than these are not pending for long: the next look finds them.
  std::array<StreamTable::Marker, 64> markers;
  std::size_t count = 0;
  {
    std::lock_guard lock(mutex_);
    count = streams_.TakeMarkers(markers);
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
      idle_events_.push_back(markers[i].event);
    } else {
      streams_.AddMarker(markers[i]);
    }
  }
}

bool DeviceMemory::SynchroniseAll() {
  if (captures_in_progress.load(std::memory_order_relaxed) != 0) return false;
  std::vector<Fence> reached;
  {
    std::lock_guard lock(mutex_);
    for (StreamIndex s = 1; s <= streams_.count(); ++s) reached.push_back(streams_.Here(s));
  }
  if (driver_.cuCtxSynchronize() != CUDA_SUCCESS) return false;
  std::lock_guard lock(mutex_);
  for (const Fence& fence : reached) streams_.Pass(fence.stream, fence.position);
  return true;
}

void DeviceMemory::FinishDeferred() {
  std::vector<Deferred> deferred;
  {
    std::lock_guard lock(mutex_);
    if (deferred_.empty() || captures_in_progress.load(std::memory_order_relaxed) != 0) return;
    deferred.swap(deferred_);
  }
  const bool done = driver_.cuCtxSynchronize() == CUDA_SUCCESS;
  std::lock_guard lock(mutex_);
  for (const Deferred& d : deferred) {
    if (done) {
      ReleaseBlock(d.address, d.block, Fence{});
    } else {
      deferred_.push_back(d);
    }
  }
}

void DeviceMemory::NoteStreamDestroyed(Order order) {
  StreamIndex stream = kNoStream;
  {
    std::lock_guard lock(mutex_);
    stream = streams_.FindExisting(order.stream, order.scope);
    if (stream == kNoStream) return;
    if (!multi_stream_) {
      space_->RefenceAll(kNoStream, streams_.Advance(stream));
      multi_stream_ = true;
    }
  }
  RecordMarker(stream);
  bool covered = false;
  {
    std::lock_guard lock(mutex_);
    covered = !streams_.NeedsMarker(stream, 1);
  }
  if (!covered) SynchroniseAll();
  std::lock_guard lock(mutex_);
  streams_.Retire(stream);
}

// Streams that make no request are followed too: order runs through them (a communication library's own streams), and
// what one stream knows of another reaches a third.
DeviceMemory::Noted DeviceMemory::NoteEventRecorded(CUevent event, Order order) {
  std::lock_guard lock(mutex_);
  if (!multi_stream_ && recorder_ == nullptr) return {};
  const StreamIndex stream = streams_.IndexOf(order.stream, order.scope);
  streams_.EventRecorded(event, stream);
  return {stream, recorder_ ? recorder_->NextSequence() : 0};
}

DeviceMemory::Noted DeviceMemory::NoteStreamWaits(Order order, CUevent event) {
  std::lock_guard lock(mutex_);
  if (!multi_stream_ && recorder_ == nullptr) return {};
  const StreamIndex stream = streams_.IndexOf(order.stream, order.scope);
  streams_.StreamWaits(stream, event, [&](Fence fence) {
    if (!observing_.load(std::memory_order_relaxed)) return;
    Seen* seen = PutDown();
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
