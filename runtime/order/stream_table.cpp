#include "runtime/order/stream_table.h"

#include <algorithm>

namespace stalloc::runtime {

namespace {
// Programs make and drop events freely; beyond this many the oldest knowledge is forgotten, which costs a wait at most.
constexpr std::size_t kMaxEvents = 4096;
}  // namespace

StreamTable::StreamTable() : streams_(1), by_key_(64), clocks_(kMaxStreams * kMaxStreams), events_(256) {
  streams_.reserve(kMaxStreams);
}

std::uint64_t StreamTable::KeyOfPerThread(CUcontext context) {
  const std::uint64_t in_thread = ThisThread().number * 0x9E3779B97F4A7C15ull;
  return (in_thread ^ reinterpret_cast<std::uint64_t>(context)) * 0xC2B2AE3D27D4EB4Full | 1;
}

StreamIndex StreamTable::FindExisting(CUstream handle, CUcontext context) const {
  const StreamIndex* found = by_key_.Find(KeyOf(handle, context));
  return found == nullptr ? kNoStream : *found;
}

// A retired index whose frees have all executed: nothing in the free space carries it un-passed, and its positions go
// on from where they were.
StreamIndex StreamTable::FindUnused() const {
  for (StreamIndex i = count(); i >= 1; --i)
    if (streams_[i].retired && streams_[i].passed == streams_[i].position) return i;
  return kNoStream;
}

// Nobody says when a thread's default stream ends, so it is asked for when there is need of its place.
void StreamTable::RetireOfEndedThreads() {
  for (StreamIndex i = 1; i <= count(); ++i)
    if (!streams_[i].retired && streams_[i].thread.ended()) Retire(i);
}

StreamIndex StreamTable::IndexOfKey(std::uint64_t key, CUstream handle, CUcontext context) {
  StreamIndex index = kNoStream;
  if (const StreamIndex* found = by_key_.Find(key)) {
    index = *found;
  } else {
    index = FindUnused();
    if (index == kNoStream && streams_.size() >= kMaxStreams - 1) {
      RetireOfEndedThreads();
      index = FindUnused();
      if (index == kNoStream) return kNoStream;
    }
    if (index == kNoStream) {
      streams_.emplace_back();
      index = count();
    }
    Stream& stream = streams_[index];
    stream.handle = handle;
    stream.context = context;
    stream.thread = handle == CU_STREAM_PER_THREAD ? ThisThread() : ThreadIdentity{};
    stream.key = key;
    stream.ending = 0;
    stream.retired = false;
    for (StreamIndex i = 0; i < kMaxStreams; ++i) clocks_[Cell(index, i)] = {};
    by_key_.Insert(key, index);
  }
  last_key_ = key;
  last_index_ = index;
  return index;
}

void StreamTable::Order(StreamIndex stream, Fence fence) noexcept {
  if (fence.stream == kNoStream || stream == kNoStream) return;
  std::uint64_t& reached = clocks_[Cell(stream, fence.stream)].in_all;
  reached = std::max(reached, fence.position);
}

void StreamTable::Pass(StreamIndex stream, std::uint64_t position) noexcept {
  streams_[stream].passed = std::max(streams_[stream].passed, position);
  streams_[stream].covered = std::max(streams_[stream].covered, position);
}

void StreamTable::AddMarker(const Marker& marker) {
  markers_.push_back(marker);
  streams_[marker.stream].covered = std::max(streams_[marker.stream].covered, marker.position);
}

std::size_t StreamTable::TakeMarkers(std::span<Marker> room) {
  const std::size_t taken = std::min(room.size(), markers_.size());
  const auto end = markers_.begin() + static_cast<std::ptrdiff_t>(taken);
  std::copy(markers_.begin(), end, room.begin());
  markers_.erase(markers_.begin(), end);
  return taken;
}

const StreamTable::Marker* StreamTable::MarkerBehind(Fence fence) const {
  const Marker* first = nullptr;
  for (const Marker& marker : markers_)
    if (marker.stream == fence.stream && marker.position >= fence.position &&
        (first == nullptr || marker.position < first->position))
      first = &marker;
  return first;
}

StreamTable::Record StreamTable::EventRecords(CUevent event, StreamIndex stream) {
  const auto key = reinterpret_cast<std::uint64_t>(event);
  std::uint32_t* row = events_.Find(key);
  if (row == nullptr) {
    if (recorded_.size() >= kMaxEvents) ForgetEvents();
    recorded_.emplace_back();
    events_.Insert(key, static_cast<std::uint32_t>(recorded_.size() - 1));
    row = events_.Find(key);
  }
  Recorded& recorded = recorded_[*row];
  recorded.done = false;
  recorded.record = ++last_record_;
  recorded.clock.assign(streams_.size(), {});
  if (stream == kNoStream) return recorded.record;
  for (StreamIndex i = 1; i <= count(); ++i) recorded.clock[i] = clocks_[Cell(stream, i)];
  recorded.clock[stream] = {streams_[stream].position, streams_[stream].position};
  return recorded.record;
}

// Unless another thread has begun to record it anew, or destroyed it.
void StreamTable::EventRecorded(CUevent event, Record record) noexcept {
  const std::uint32_t* row = events_.Find(reinterpret_cast<std::uint64_t>(event));
  if (row != nullptr && recorded_[*row].record == record) recorded_[*row].done = true;
}

void StreamTable::Retire(StreamIndex stream) noexcept {
  by_key_.Erase(streams_[stream].key);
  streams_[stream].retired = true;
  last_key_ = 0;
  last_index_ = kNoStream;
}

void StreamTable::RetireAllOf(CUcontext context, std::uint64_t ending, const Positions& executed) noexcept {
  for (StreamIndex i = 1; i <= count(); ++i) {
    // Of an earlier context with this handle some may be left.
    if (streams_[i].context != context || streams_[i].ending != 0) continue;
    streams_[i].ending = ending;
    Pass(i, executed[i]);
    if (!streams_[i].retired) Retire(i);
  }
  std::erase_if(markers_, [&](const Marker& marker) { return marker.context == context; });
  // Which of the program's events were the context's is not known, and their handles come back.
  ForgetEvents();
}

void StreamTable::PassAllOf(std::uint64_t ending) noexcept {
  for (StreamIndex i = 1; i <= count(); ++i)
    if (streams_[i].ending == ending) Pass(i, streams_[i].position);
}

void StreamTable::ForgetEvents() noexcept {
  events_.Clear();
  recorded_.clear();
}

}  // namespace stalloc::runtime
