// StreamTable: the order in which a device's memory was freed, stream by stream.
//
// A stream that the program made is known by its handle. The handles 0, 1 and 2 name other streams in each context, and
// the last another in each thread: these are known by their context and thread too.
//
// Each stream has a position, the number of frees that followed its order. A fence (stream, position) is behind a
// request on stream T if it is T's own, if an event recorded after it has passed, or if T is known to wait for it: by a
// wait that the runtime inserted or by the program's own events, followed with vector clocks.
//
// Members are called under the device's lock and make no driver call. What must ask the driver is taken out as a job
// (an event to record, to query), done without the lock, and given back.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/flat_map.h"
#include "runtime/base/granule.h"
#include "runtime/base/lazy_array.h"
#include "runtime/base/thread_identity.h"

namespace stalloc::runtime {

// True for the streams whose handle means another stream in each context.
inline bool IsDefaultStream(CUstream stream) noexcept {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

class StreamTable {
 public:
  // An event of `context` recorded on `stream` after all frees up to `position`.
  struct Marker {
    CUevent event = nullptr;
    CUcontext context = nullptr;
    std::uint64_t life = 0;  // of the context, see UsedContexts
    StreamIndex stream = kNoStream;
    std::uint64_t position = 0;
  };

  StreamTable();

  // The index of a stream of `context`; registers it when it is new. The per-thread default stream is the calling
  // thread's. kNoStream: there are more than can be followed.
  StreamIndex IndexOf(CUstream handle, CUcontext context) {
    const std::uint64_t key = KeyOf(handle, context);
    return key == last_key_ ? last_index_ : IndexOfKey(key, handle, context);
  }
  CUstream HandleOf(StreamIndex stream) const { return streams_[stream].handle; }
  CUcontext ContextOf(StreamIndex stream) const { return streams_[stream].context; }
  // False: it is another thread's own, which no handle means here.
  bool HasNameHere(StreamIndex stream) const {
    return streams_[stream].thread.number == 0 || IsThisThread(streams_[stream].thread);
  }
  bool Retired(StreamIndex stream) const { return streams_[stream].retired; }
  bool AnyRetired() const { return std::ranges::any_of(streams_, &Stream::retired); }
  // Registered streams, indices [1, count].
  StreamIndex count() const { return static_cast<StreamIndex>(streams_.size() - 1); }

  // Has no other stream been used for more frees? The program's main stream, mostly.
  bool IsBusiest(StreamIndex stream) const noexcept {
    return std::none_of(streams_.begin(), streams_.end(),
                        [&](const Stream& other) { return other.position > streams_[stream].position; });
  }

  // The next free on `stream`: its fence.
  Fence Advance(StreamIndex stream) noexcept { return {stream, ++streams_[stream].position}; }
  Fence Here(StreamIndex stream) const noexcept { return {stream, streams_[stream].position}; }
  // Of all streams. Whoever waits for work takes them down first: what is freed during the wait was not waited for.
  using Positions = std::array<std::uint64_t, kMaxStreams>;
  Positions HereOfAll() const noexcept {
    Positions here{};
    for (StreamIndex i = 1; i <= count(); ++i) here[i] = streams_[i].position;
    return here;
  }

  // May a request on `stream` (kNoStream: one without stream order) use memory under `fence` with nothing to wait for?
  bool Behind(StreamIndex stream, Fence fence) const noexcept {
    if (fence.stream == kNoStream || fence.stream == stream) return true;
    if (fence.stream == kAbsent) return false;
    return fence.position <= streams_[fence.stream].passed ||
           fence.position <= clocks_[Cell(stream, fence.stream)].in_all;
  }

  // The last of `other`'s positions that a request on `stream` may use with nothing to wait for.
  std::uint64_t BehindUpTo(StreamIndex stream, StreamIndex other) const noexcept {
    return std::max(streams_[other].passed, clocks_[Cell(stream, other)].in_all);
  }

  // Is all work before `fence` known to have executed?
  bool Executed(Fence fence) const noexcept {
    return fence.stream == kNoStream || fence.position <= streams_[fence.stream].passed;
  }

  // `stream` is now ordered behind `fence`, by a wait that the allocator inserted.
  void Order(StreamIndex stream, Fence fence) noexcept;

  // Everything up to `position` has executed.
  void Pass(StreamIndex stream, std::uint64_t position) noexcept;
  std::uint64_t Passed(StreamIndex stream) const noexcept { return streams_[stream].passed; }

  // visit(StreamIndex) for each stream with frees that no marker covers yet.
  template <typename Visit>
  void VisitUncovered(Visit visit) const {
    for (StreamIndex i = 1; i <= count(); ++i)
      if (!streams_[i].retired && streams_[i].position > streams_[i].covered) visit(i);
  }
  bool NeedsMarker(StreamIndex stream, std::uint64_t frees) const noexcept {
    return streams_[stream].position - streams_[stream].covered >= frees;
  }
  void AddMarker(const Marker& marker);
  // Takes out as many pending markers as there is room for, the oldest first, and returns how many.
  std::size_t TakeMarkers(std::span<Marker> room);
  // The first pending marker behind `fence`, if there is one.
  const Marker* MarkerBehind(Fence fence) const;

  // The program's own ordering. An event is recorded in two steps, before the driver is asked and once it has done it:
  // what another thread frees on the stream in between may be in use by work that comes behind the event. From the
  // first step to the second the event stands for nothing. Returns a number that no other record has.
  using Record = std::uint64_t;
  static constexpr Record kNoRecord = 0;
  Record EventRecords(CUevent event, StreamIndex stream);
  void EventRecorded(CUevent event, Record record) noexcept;
  // What it stands for at present. Whoever waits for it asks before the driver is, for it may be recorded anew by then.
  Record RecordOf(CUevent event) const noexcept {
    const std::uint32_t* row = events_.Find(reinterpret_cast<std::uint64_t>(event));
    return row != nullptr && recorded_[*row].done ? recorded_[*row].record : kNoRecord;
  }
  // Calls advanced(Fence) for each stream of whose frees `stream` now has more behind it by the program's doing alone:
  // what follows from a wait that the allocator inserted is gone when another plan does without that wait.
  template <typename Advanced>
  void StreamWaits(StreamIndex stream, CUevent event, Record record, Advanced advanced) {
    if (record == kNoRecord || stream == kNoStream || RecordOf(event) != record) return;
    const std::vector<Reached>& clock = recorded_[*events_.Find(reinterpret_cast<std::uint64_t>(event))].clock;
    for (StreamIndex i = 1; i < clock.size(); ++i) {
      if (i == stream) continue;
      Reached& reached = clocks_[Cell(stream, i)];
      reached.in_all = std::max(reached.in_all, clock[i].in_all);
      if (clock[i].by_program <= reached.by_program) continue;
      reached.by_program = clock[i].by_program;
      advanced(Fence{i, reached.by_program});
    }
  }
  void EventDestroyed(CUevent event) { events_.Erase(reinterpret_cast<std::uint64_t>(event)); }

  // The handle is about to be destroyed; it may come back for another stream. The index stays until its frees passed.
  void Retire(StreamIndex stream) noexcept;
  // The context is ending, by this number, and with it its streams and all events in it: handles may come back. What
  // was freed up to these positions has executed, and other work may go on until PassAllOf.
  void RetireAllOf(CUcontext context, std::uint64_t ending, const Positions& executed) noexcept;
  void PassAllOf(std::uint64_t ending) noexcept;
  StreamIndex FindExisting(CUstream handle, CUcontext context) const;

 private:
  StreamIndex IndexOfKey(std::uint64_t key, CUstream handle, CUcontext context);
  StreamIndex FindUnused() const;
  void ForgetEvents() noexcept;
  void RetireOfEndedThreads();

  struct Stream {
    CUstream handle = nullptr;
    CUcontext context = nullptr;
    ThreadIdentity thread;  // whose default stream it is
    std::uint64_t key = 0;
    std::uint64_t position = 0;  // frees so far
    std::uint64_t passed = 0;    // known to have executed
    std::uint64_t covered = 0;   // the last marker's position
    std::uint64_t ending = 0;    // the end of its context, if that has begun
    bool retired = false;
  };

  struct Reached {
    std::uint64_t in_all = 0;
    std::uint64_t by_program = 0;  // without what follows from inserted waits
  };

  static std::size_t Cell(StreamIndex waiting, StreamIndex stream) noexcept {
    return std::size_t{waiting} * kMaxStreams + stream;
  }
  // A handle that the program was given and a context are addresses of the driver's, no two of which are alike, and
  // even: each is its own key. Only a thread and a context together are hashed, to 64 bits.
  static std::uint64_t KeyOf(CUstream handle, CUcontext context) {
    if (!IsDefaultStream(handle)) return reinterpret_cast<std::uint64_t>(handle) | 1;
    if (handle == CU_STREAM_PER_THREAD) [[unlikely]]
      return KeyOfPerThread(context);
    return reinterpret_cast<std::uint64_t>(context) | 1;
  }
  static std::uint64_t KeyOfPerThread(CUcontext context);

  std::vector<Stream> streams_;  // [0] unused
  FlatMap<StreamIndex> by_key_;
  LazyArray<Reached> clocks_;  // [waiting][stream]: position that `waiting` is ordered behind
  std::vector<Marker> markers_;
  struct Recorded {
    std::vector<Reached> clock;  // by stream
    Record record = kNoRecord;
    bool done = false;  // the driver has done it
  };
  FlatMap<std::uint32_t> events_;  // CUevent -> row of recorded_
  std::vector<Recorded> recorded_;
  Record last_record_ = kNoRecord;
  std::uint64_t last_key_ = 0;
  StreamIndex last_index_ = kNoStream;
};

}  // namespace stalloc::runtime
