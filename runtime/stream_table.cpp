#include "runtime/stream_table.h"

#include <algorithm>

namespace stalloc::runtime {

namespace {
// Programs make and drop events freely; beyond this many the oldest knowledge is forgotten, which costs a wait at most.
constexpr std::size_t kMaxEvents = 4096;
}  // namespace

StreamTable::StreamTable() : streams_(1), by_key_(64), clocks_(kMaxStreams * kMaxStreams), events_(256) {
  streams_.reserve(kMaxStreams);
}

StreamIndex StreamTable::FindExisting(CUstream handle, std::uint64_t scope) const {
  const StreamIndex* found = by_key_.Find(KeyOf(handle, scope));
  return found == nullptr ? kNoStream : *found;
}

StreamIndex StreamTable::IndexOfKey(std::uint64_t key, CUstream handle) {
  StreamIndex index = kNoStream;
  if (const StreamIndex* found = by_key_.Find(key)) {
    index = *found;
  } else {
    // A retired index whose frees have all executed is free again: nothing in the free space carries it un-passed, and
    // its positions go on from where they were.
    for (StreamIndex i = 1; i <= count(); ++i)
      if (streams_[i].retired && streams_[i].passed == streams_[i].position) index = i;
    if (index == kNoStream) {
      if (streams_.size() >= kMaxStreams - 1) return kNoStream;
      streams_.emplace_back();
      index = count();
    }
    streams_[index].handle = handle;
    streams_[index].key = key;
    streams_[index].retired = false;
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
  streams_[marker.stream].covered = std::max(streams_[marker.stream].covered, marker.position);
  markers_.push_back(marker);
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

void StreamTable::EventRecorded(CUevent event, StreamIndex stream) {
  const auto key = reinterpret_cast<std::uint64_t>(event);
  std::uint32_t* row = events_.Find(key);
  if (row == nullptr) {
    if (event_clocks_.size() >= kMaxEvents) {
      events_ = FlatMap<std::uint32_t>(256);
      event_clocks_.clear();
    }
    events_.Insert(key, static_cast<std::uint32_t>(event_clocks_.size()));
    row = events_.Find(key);
    event_clocks_.emplace_back();
  }
  std::vector<Reached>& clock = event_clocks_[*row];
  clock.assign(streams_.size(), {});
  if (stream == kNoStream) return;
  for (StreamIndex i = 1; i <= count(); ++i) clock[i] = clocks_[Cell(stream, i)];
  clock[stream] = {streams_[stream].position, streams_[stream].position};
}

void StreamTable::Retire(StreamIndex stream) {
  by_key_.Erase(streams_[stream].key);
  streams_[stream].retired = true;
  last_key_ = 0;
  last_index_ = kNoStream;
}

}  // namespace stalloc::runtime
