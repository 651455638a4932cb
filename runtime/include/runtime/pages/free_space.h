// FreeSpace: which bytes of a device's base range are free, and in whose stream order.
//
// The base range is counted in granules of 512 bytes. Free granules form fragments; each fragment carries one fence:
// the stream on which its last user was freed and that stream's position then (stream 0: ordered before everything, so
// usable by all). Adjacent fragments of the same stream are one; those of different streams stay apart until the fence
// has passed, so that a small pending free does not taint a large clean room. A fragment that was made of several has
// the latest of their positions. That is what a search for room should see, but a request that knows its place need not
// wait for the frees of its neighbours: on demand each granule's own last free is remembered beside (see LastFrees).
//
// Not thread-safe: the device's lock is held around every call. Never allocates after construction, but for
// RememberFrees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/base/address_bits.h"
#include "runtime/base/flat_map.h"
#include "runtime/base/granule.h"
#include "runtime/base/lazy_array.h"
#include "runtime/pages/last_frees.h"

namespace stalloc::runtime {

class FreeSpace {
 public:
  static constexpr std::uint64_t kAnyPosition = ~std::uint64_t{0};

  // The base range holds `granules` granules, a whole number of pages, all of them absent.
  explicit FreeSpace(Granule granules);
  ~FreeSpace();

  // Makes [run.begin, run.end) free under `fence`. Precondition: none of it is free.
  void Release(Run run, Fence fence) noexcept;

  // Takes [run.begin, run.end). Precondition: AllFree(run).
  void Claim(Run run) noexcept;

  // Takes [run.begin, run.end) if a single fragment holds all of it and usable(Fence) says yes: the usual case, in one
  // look-up. Otherwise nothing changes.
  template <typename Usable>
  bool ClaimWhole(Run run, Usable usable) noexcept {
    const Index index = FragmentOver(run);
    if (index == kNull || !usable(fragments_[index].fence())) return false;
    Cut(index, run);
    return true;
  }

  // The fence of the fragment that holds all of `run`; nullopt: no single one does.
  std::optional<Fence> FenceOver(Run run) const noexcept {
    const Index index = FragmentOver(run);
    if (index == kNull) return std::nullopt;
    return fragments_[index].fence();
  }

  bool AllFree(Run run) const noexcept;

  // From the next release in a stream's order on the last free of each granule is remembered, for VisitExact. It costs
  // such a release some 20 ns.
  void RememberFrees();

  Granule size() const noexcept { return granules_; }

  // Calls visit(Run, Fence) for each fragment that overlaps `run`, clipped to it, in address order.
  template <typename Visit>
  void VisitOverlapping(Run run, Visit visit) const {
    for (Granule at = ends_.AtOrAfter(run.begin + 1); at != AddressBits::kNone;) {
      const Fragment& f = fragments_[IndexAt(at)];
      if (f.begin >= run.end) return;
      visit(Run{f.begin < run.begin ? run.begin : f.begin, f.end > run.end ? run.end : f.end}, f.fence());
      if (f.end >= run.end) return;
      at = ends_.AtOrAfter(f.end + 1);
    }
  }

  // Likewise, but with the fence of the free that each piece of a fragment comes from, where that is remembered: it is
  // never later than the fragment's.
  template <typename Visit>
  void VisitExact(Run run, Visit visit) const {
    VisitOverlapping(run, [&](Run piece, Fence joined) {
      if (!last_frees_ || !InOrder(joined.stream)) return visit(piece, joined);
      last_frees_->VisitPieces(piece,
                               [&](Run part, const Fence* known) { visit(part, known != nullptr ? *known : joined); });
    });
  }

  template <typename Visit>
  void VisitAll(Visit visit) const {
    for (Granule at = ends_.AtOrAfter(0); at != AddressBits::kNone;) {
      const Fragment& f = fragments_[IndexAt(at)];
      const Run run = f.run();
      visit(run, f.fence());
      at = ends_.AtOrAfter(run.end + 1);
    }
  }

  // Calls visit(Run) for each longest run of adjacent fragments for which usable(Run fragment, Fence) says yes.
  template <typename Usable, typename Visit>
  void VisitRuns(Usable usable, Visit visit) const {
    Run run{};
    VisitAll([&](Run fragment, Fence fence) {
      const bool ok = usable(fragment, fence);
      if (ok && fragment.begin == run.end) {
        run.end = fragment.end;
        return;
      }
      if (run.length() != 0) visit(run);
      run = ok ? fragment : Run{};
    });
    if (run.length() != 0) visit(run);
  }

  // The smallest fragment of stream `stream` with at least `granules`; lowest address among equals of one size. Only
  // what lies at or behind granule `from`, and fences up to `position`, count.
  std::optional<Run> BestFit(Granule granules, StreamIndex stream, Granule from = 0,
                             std::uint64_t position = kAnyPosition) const noexcept;

  // The lowest of rooms, but those that begin where one of `put_off` is, none of which is 0, only after all others.
  class Lowest {
   public:
    explicit Lowest(const FlatMap<bool>& put_off) : put_off_(put_off) {}

    void Add(Run room) noexcept {
      Run& lowest = room.begin != 0 && put_off_.Find(room.begin) != nullptr ? put_off_lowest_ : lowest_;
      if (lowest.end == 0 || room.begin < lowest.begin) lowest = room;
    }
    std::optional<Run> room() const noexcept {
      if (lowest_.end != 0) return lowest_;
      return put_off_lowest_.end != 0 ? std::optional(put_off_lowest_) : std::nullopt;
    }

   private:
    const FlatMap<bool>& put_off_;
    Run lowest_{};
    Run put_off_lowest_{};
  };

  // The highest of rooms, but for the largest, which is left to what no other holds; of several as large the lowest is
  // the largest. Each room is to be added once.
  class HighestButLargest {
   public:
    void Add(Run room) noexcept {
      const bool larger = room.length() > largest_.length();
      if (larger || (room.length() == largest_.length() && room.begin < largest_.begin)) std::swap(room, largest_);
      if (room.end > highest_.end) highest_ = room;
    }
    // nullopt: there is none. The largest if there is no other.
    std::optional<Run> room() const noexcept {
      if (highest_.length() != 0) return highest_;
      return largest_.length() != 0 ? std::optional(largest_) : std::nullopt;
    }

   private:
    Run largest_{};
    Run highest_{};  // of the others
  };

  // Adds to a Lowest or a HighestButLargest all fragments of stream `stream` that BestFit chooses from. Linear in their
  // number.
  template <typename Rooms>
  void AddTo(Rooms* rooms, Granule granules, StreamIndex stream, Granule from = 0,
             std::uint64_t position = kAnyPosition) const noexcept;

  // True if anything is free in the order of `stream`.
  bool Any(StreamIndex stream) const noexcept { return sizes_[stream].count != 0; }

  // The smallest run of adjacent fragments, all accepted by usable(Fence), with at least `granules`. Linear in the
  // number of fragments: for when BestFit has failed.
  template <typename Usable>
  std::optional<Run> BestRun(Granule granules, Usable usable) const {
    std::optional<Run> best;
    VisitRuns([&](Run, Fence fence) { return usable(fence); },
              [&](Run run) {
                if (run.length() >= granules && (!best || run.length() < best->length())) best = run;
              });
    return best;
  }

  // Fences (stream, <= position) have passed: their fragments become usable by all.
  void Pass(StreamIndex stream, std::uint64_t position) noexcept;

  // Everything free now belongs to the order of `fence` (used when a second stream appears and when one is retired).
  void RefenceAll(StreamIndex from, Fence fence) noexcept;

 private:
  using Index = std::uint32_t;
  static constexpr Index kNull = 0;

  // A stream's fragments. By size: exact below 16 granules, then 16 classes a power of two. By rising position of their
  // fences: a queue, so that what has passed is found without looking at the rest.
  static constexpr int kSubBits = 4;
  static constexpr int kClasses = (32 - kSubBits) << kSubBits;
  struct SizeIndex {
    std::uint64_t bitmap[kClasses / 64] = {};
    Index head[kClasses] = {};
    std::uint32_t count = 0;
    Index oldest = kNull;
    Index newest = kNull;
  };

  struct Fragment {
    Granule begin, end;
    Index previous, next;  // in its size class
    Index older, newer;    // in its stream's queue; not for what has no stream's order
    std::uint64_t position;
    StreamIndex stream;
    std::uint16_t size_class;

    Run run() const noexcept { return {begin, end}; }
    Fence fence() const noexcept { return {stream, position}; }
  };

  static std::uint16_t ClassOf(Granule granules) noexcept;
  static int FilledClass(const SizeIndex& sizes, int size_class) noexcept;
  // Calls visit(Run) for all that a class holds for such a request. See BestFit.
  template <typename Visit>
  void VisitInClass(const SizeIndex& sizes, int size_class, Granule granules, Granule from, std::uint64_t position,
                    Visit visit) const noexcept;
  // For all that any class holds.
  template <typename Visit>
  void VisitFitting(Granule granules, StreamIndex stream, Granule from, std::uint64_t position,
                    Visit visit) const noexcept;
  // Precondition: a fragment ends there.
  Index IndexAt(Granule end) const noexcept { return *by_end_.Find(end); }

  // The fragment that holds all of `run`, or kNull. Looked for from the run's end, near which it ends more often.
  Index FragmentOver(Run run) const noexcept {
    const Granule end = ends_.AtOrAfter(run.end);
    if (end == AddressBits::kNone) return kNull;
    const Index index = IndexAt(end);
    return fragments_[index].begin <= run.begin ? index : kNull;
  }

  void Insert(Run run, Fence fence) noexcept;
  void AddFragment(Run run, Fence fence) noexcept;
  void RemoveFragment(Index index) noexcept;
  void Link(Index index, Fragment& f, SizeIndex& sizes, std::uint16_t size_class) noexcept;
  void Unlink(const Fragment& f, SizeIndex& sizes) noexcept;
  void Enqueue(Index index) noexcept;
  void Dequeue(Index index) noexcept;
  void Change(Index index, Run run, Fence fence) noexcept;
  void ChangeBegin(Index index, Granule begin) noexcept;
  void Cut(Index index, Run run) noexcept;
  static bool InOrder(StreamIndex stream) noexcept { return stream != kNoStream && stream != kAbsent; }
  static Fence Joined(Fence a, Fence b) noexcept;
  bool MayMerge(const Fragment& neighbour, Run run, Fence fence) const noexcept;

  const Granule granules_;
  // Fragments are known by their ends: memory is taken from the front of a fragment and comes back there, which moves
  // its beginning only.
  AddressBits ends_;
  FlatMap<Index> by_end_;
  LazyArray<Fragment> fragments_;
  Index unused_head_ = kNull;  // chained through Fragment::next
  Index unused_fresh_ = 1;
  LazyArray<SizeIndex> sizes_;  // one a stream
  std::unique_ptr<LastFrees> last_frees_;
  bool remembers_ = false;  // in last_frees_
};

}  // namespace stalloc::runtime
