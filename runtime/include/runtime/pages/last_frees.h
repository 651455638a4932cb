// LastFrees: by which free each granule of a range was last given back.
//
// A partition of the granules into runs of one fence each, kept as the runs' beginnings; a run ends where the next one
// begins. Noting a free cuts the runs that it overlaps, so that a granule's fence is always its last free's: of a range
// in which the same blocks come and go, a free finds its own beginning and end and changes one entry. What is claimed
// stays as it is: nobody asks about it before it is noted again.
//
// Bounded: when there are too many runs it forgets them all. What is not known is to be judged by other means, so that
// forgetting never makes memory usable too early.
//
// Not thread-safe; allocates only in its constructor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/address_bits.h"
#include "runtime/base/flat_map.h"
#include "runtime/base/granule.h"

namespace stalloc::runtime {

class LastFrees {
 public:
  // Of granules [0, granules); nothing is known of any. `most_runs` >= 4 bounds what is remembered.
  explicit LastFrees(Granule granules, std::size_t most_runs = kMostRuns);

  // All of `run`, which is not empty, was given back under `fence`. Stream kAbsent: nothing is known of it any more.
  void Note(Run run, Fence fence) noexcept;

  void Forget() noexcept;

  // Calls visit(Run, const Fence*) for each piece of `run` in address order; nullptr: not known.
  template <typename Visit>
  void VisitPieces(Run run, Visit visit) const {
    Granule begin = begins_.AtOrBefore(run.begin);
    for (Granule at = run.begin; at < run.end;) {
      const Fence* fence = fences_.Find(Key(begin));
      begin = begins_.AtOrAfter(begin + 1);
      const Granule end = begin < run.end ? begin : run.end;  // AddressBits::kNone lies behind everything
      visit(Run{at, end}, fence->stream == kAbsent ? nullptr : fence);
      at = end;
    }
  }

  std::size_t runs() const noexcept { return fences_.size(); }

 private:
  // A device's live blocks, several times over: programs hold some thousands.
  static constexpr std::size_t kMostRuns = std::size_t{1} << 14;

  static std::uint64_t Key(Granule begin) noexcept { return std::uint64_t{begin} + 1; }
  void Begin(Granule begin, Fence fence) noexcept;

  const Granule granules_;
  const std::size_t most_runs_;
  AddressBits begins_;  // 0 is always one of them
  FlatMap<Fence> fences_;
};

}  // namespace stalloc::runtime
