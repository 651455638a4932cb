// LifetimeRooms: blocks that are live when memory is tight, apart from those that are not.
//
// Memory is tight when the largest requests come that find no one room: they are stitched, mostly from nearly all pages
// that are left: one block of a large part of memory, or the last of many gradients. Where the sizes of a program
// differ from iteration to iteration, best fit lays what is live then now here, now there, other pages are left, and
// the views have to exchange them in every iteration. So blocks that will still be live then go to the lowest room that
// holds them, and all others to the end of the highest, like two stacks: most of the others end in the reverse of the
// order in which they came, and so leave to those below one room that grows, without holes. Not of the largest room, as
// long as another holds them: that is for the largest requests, which no other room holds. Nor does a block that lasts
// begin where one of the others ends, as long as another room holds it: between the two another hole would be left each
// time. What is left when memory is tight is then much the same in every iteration, and less splintered.
//
// It takes knowing which blocks these are, so it is done only where mapping takes time, where what became of the blocks
// is what had been guessed for them (LifetimePredictor), and where it is then seen to help. States: off; watching,
// which is all but for where blocks lie; and sorting, on trial until it has helped once.
//
// Placement by predicted lifetime: Maas et al. 2020, Learning-based memory allocation for C++ server workloads; told
// from call sites there, from the program's path here.
//
// Used under the device's lock. Only Spent may allocate host memory, when it begins to watch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/base/flat_map.h"
#include "runtime/base/granule.h"
#include "runtime/device/cost_window.h"
#include "runtime/device/lifetime_predictor.h"

namespace stalloc::runtime {

class LifetimeRooms {
 public:
  // Blocks from half a page on. Smaller ones are packed side by side, where best fit is as good.
  static constexpr Granule kLeast = kPageGranules / 2;
  // Mapping is worth nothing better below this share of the time.
  static constexpr double kWorth = 0.005;
  // Where it is worth more than that although blocks are sorted, the pool may grow to this multiple of the peak.
  static constexpr double kMoreGrowth = 1.005;

  // Where a request is to lie.
  enum class Room : std::uint8_t {
    kAny,     // nothing is known of it, or nothing is sorted
    kLowest,  // at the front of the lowest one
    kHigh,    // at the end of the highest one, but for the largest
  };

  struct Guess {
    LifetimePredictor::Path path = 0;  // 0: nobody watches it
    bool lasts = false;
    Room room = Room::kAny;
  };

  bool watching() const noexcept { return state_ != State::kOff; }
  bool sorting() const noexcept { return state_ == State::kSorting; }

  // While watching: a request comes. `used`, here and below: granules that are in use with it.
  Guess Ask(Granule granules, Granule used) noexcept;
  // It has been served at `key`, by which its block will be known. `end`: the granule of the base range at which that
  // ends; 0: it is in a view, for there was no one room for it.
  void Note(std::uint64_t key, const Guess& guess, Granule granules, Granule end, Granule used) noexcept;
  // The block has ended.
  void End(std::uint64_t key, Granule granules) noexcept;

  // Only while watching: the granules at which blocks end that are not expected to last, whichever room they found.
  const FlatMap<bool>& high_ends() const noexcept { return watched_->high_ends; }

  // See CostWindow. `cost_ns`: of requests that were stitched, with what they waited for; 0: of one that only waited.
  void Spent(std::uint64_t cost_ns, const CostWindow::Moment& moment) noexcept;

  // What mapping costs just now says nothing of what it will: blocks are on their way to other rooms, for sorting is
  // being tried or has ended, or it may be about to begin.
  bool unsettled() const noexcept {
    const bool may_sort = state_ == State::kWatching && (windows_ > 0 || watched_windows_ < kToBeTold);
    return may_sort || (sorting() && !helps_) || turning_back_ > 0;
  }

  // Sorting helps, but mapping still takes time: with a little more than is live the last requests before the peak need
  // not take the very last pages, which are other ones in every iteration. True, once: if memory is ample, HoldMore
  // should be called. What was given stays while blocks are sorted, until somebody is refused memory.
  bool TakeWish() noexcept { return std::exchange(wants_more_, false); }
  void HoldMore() noexcept { has_more_ = sorting(); }
  void MemoryIsShort() noexcept { wants_more_ = has_more_ = false; }
  // The pool may grow to this multiple of the peak of live bytes.
  double growth() const noexcept { return has_more_ ? kMoreGrowth : 1.0; }

  // More is held from now on, so that what mapping cost before cannot be compared with what it will: sorting ends, to
  // be tried again.
  void NoteGrowth() noexcept;

 private:
  // A step hands out at least twice what is live at its peak (the recorded training runs), so that this is one
  // iteration of most programs, two of others.
  static constexpr double kTurnovers = 4.0;
  static constexpr std::uint64_t kLeastNs = 50'000'000;

  enum class State : std::uint8_t { kOff, kWatching, kSorting };

  struct Block {
    LifetimePredictor::Path path = 0;
    std::uint32_t tight = 0;  // so often memory had been when it began
    Granule high_end = 0;     // where it ends if it was to go to a high room; 0: it was not, or is in a view
    bool guessed_to_last = false;
  };

  // Requests for which there was no one room: the largest, and what was in use with those of about its size, on
  // average. Not the least that was: the first of many gradients that has no room has it from blocks that will be gone
  // when the last of them comes, and which it is best to lay out of the way of that.
  struct Stitched {
    Granule largest = 0;
    double used = 0.0;
    unsigned count = 0;  // that `used` is the average of
    void Add(Granule granules, Granule in_use) noexcept;
  };

  void Watch();
  void Sort() noexcept;
  void TurnOff() noexcept;
  void GiveUp() noexcept;
  void Judge(double share);
  void JudgeWatched(double share, std::optional<double> accuracy) noexcept;
  void JudgeSorted(double share, std::optional<double> accuracy) noexcept;
  void CountAnew() noexcept;
  std::optional<double> TakeAccuracy() noexcept;  // nullopt: no watched block has ended

  State state_ = State::kOff;
  CostWindow window_{kTurnovers, kLeastNs};

  // While watching.
  struct Watched {
    LifetimePredictor predictor;
    FlatMap<Block> blocks{kMostBlocks};
    FlatMap<bool> high_ends{kMostBlocks};  // of the blocks
  };
  static constexpr std::size_t kMostBlocks = std::size_t{1} << 13;  // what is beyond is not watched
  std::unique_ptr<Watched> watched_;                                // null: not watching
  std::uint32_t tight_ = 1;                                         // requests for which memory was tight
  std::uint32_t tight_before_ = 0;                                  // when a window was judged last
  Stitched stitched_;                 // in the last window that was judged and since; while sorting, in the last before
  Stitched in_window_;                // since a window was judged
  std::uint64_t quiet_granules_ = 0;  // that ended since something was stitched
  std::uint64_t peak_granules_ = 0;   // live at most, when something was
  std::uint64_t ended_granules_ = 0;  // blocks that ended in this window
  std::uint64_t right_granules_ = 0;  // of them, what had been guessed right

  double merged_share_ = 0.0;  // sum over `merged_`
  unsigned merged_ = 0;        // windows that are not judged yet
  double share_before_ = 0.0;  // of those before sorting, on average
  double shares_ = 0.0;        // sum over `windows_`
  unsigned windows_ = 0;       // that count, in this state
  unsigned watched_windows_ = 0;
  static constexpr unsigned kToBeTold = 3;  // of these, in which nobody can say yet whether blocks will be told
  unsigned inaccurate_ = 0;                 // windows one after the other, while sorting
  bool helps_ = false;                      // sorting has been seen to
  bool wants_more_ = false;
  bool has_more_ = false;
  unsigned turning_back_ = 0;
  static constexpr unsigned kFirstPause = 16;
  static constexpr unsigned kLongestPause = 1u << 20;
  unsigned pause_ = 0;  // off for so many windows
  unsigned next_pause_ = kFirstPause;
};

}  // namespace stalloc::runtime
