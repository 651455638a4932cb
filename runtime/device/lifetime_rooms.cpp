#include "runtime/device/lifetime_rooms.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

namespace stalloc::runtime {

namespace {

// Memory is tight for every request of this part of the largest for which there is no one room, whether or not there is
// one for it this time, if about as much is in use as when such a request had none.
constexpr double kTight = 0.75;
constexpr double kAsMuch = 0.995;

// So many windows say what mapping costs, before blocks are sorted and when they are: in one it may cost a third of
// what it does in the next. A program that only settles has a window without any by then.
constexpr unsigned kWindows = 3;
// What is being sorted lies among what was not for that long; and the other way round when sorting has ended.
constexpr unsigned kTurning = 2;
constexpr unsigned kTurningBack = 2;
// A window in which memory was never tight says nothing of the blocks; it is taken together with the next, but for ever
// with none: a program may have come to its end of tight memory.
constexpr unsigned kMostMerged = 4;
// A program whose blocks cannot be told by then is not watched any longer.
constexpr unsigned kMostWatched = 12;
// Nor is one that hands out so many times its peak without stitching anything.
constexpr std::uint64_t kQuietTurnovers = 64;

// Guessed right must be such a share of the bytes that end in a window: of a mixture of experts 99.9 % are, of programs
// whose iterations differ in what they do, and which sorting does not help, 80 to 98 (tests/bench/RESULTS.md).
constexpr double kAccurate = 0.98;
constexpr double kNotAccurate = 0.95;
// In so many windows one after the other it was less: one may hold an evaluation.
constexpr unsigned kMostInaccurate = 2;
// Sorting must lower the cost to that.
constexpr double kHelped = 0.75;

static_assert(LifetimeRooms::kMoreGrowth == 1.005, "STALLOC_GROWTH's sentence says so");

}  // namespace

LifetimeRooms::Guess LifetimeRooms::Ask(Granule granules, Granule used) noexcept {
  if (stitched_.largest != 0 && granules >= kTight * stitched_.largest && used >= kAsMuch * stitched_.used) ++tight_;
  Guess guess{.path = watched_->predictor.Follow(granules)};
  if (granules < kLeast) return {};
  guess.lasts = watched_->predictor.Lasts(guess.path).value_or(false);
  if (sorting()) guess.room = guess.lasts ? Room::kLowest : Room::kHigh;
  return guess;
}

void LifetimeRooms::Note(std::uint64_t key, const Guess& guess, Granule granules, Granule end, Granule used) noexcept {
  if (!watching() || guess.path == 0) return;
  if (end == 0) {
    in_window_.Add(granules, used);
    // While sorting, the largest of before is what memory is tight for: sorted well it finds one room, and what is
    // stitched now may be any small block, or one that never comes again.
    if (!sorting() && granules > stitched_.largest) stitched_ = in_window_;
  }
  if (watched_->blocks.size() + 1 >= kMostBlocks) return;
  const Granule high_end = guess.room == Room::kHigh ? end : 0;
  watched_->blocks.Insert(
      key, {.path = guess.path, .tight = tight_, .high_end = high_end, .guessed_to_last = guess.lasts});
  if (high_end != 0) watched_->high_ends.Insert(high_end, true);
}

void LifetimeRooms::Stitched::Add(Granule granules, Granule in_use) noexcept {
  if (granules < kTight * largest) return;
  if (largest < kTight * granules) count = 0;  // those until now were smaller
  ++count;
  used += (in_use - used) / count;
  largest = std::max(largest, granules);
}

void LifetimeRooms::End(std::uint64_t key, Granule granules) noexcept {
  quiet_granules_ += granules;
  if (!sorting() && quiet_granules_ > kQuietTurnovers * peak_granules_) return TurnOff();
  watched_->predictor.NoteFree();
  Block block;
  if (!watched_->blocks.Extract(key, &block)) return;
  watched_->high_ends.Erase(block.high_end);
  const bool lasted = block.tight != tight_;
  watched_->predictor.Learn(block.path, block.guessed_to_last, lasted);
  ended_granules_ += granules;
  if (lasted == block.guessed_to_last) right_granules_ += granules;
}

void LifetimeRooms::Spent(std::uint64_t cost_ns, const CostWindow::Moment& moment) noexcept {
  if (cost_ns != 0) quiet_granules_ = 0;
  peak_granules_ = moment.peak_live_bytes / kGranuleBytes;
  const std::optional<double> share = window_.Spent(cost_ns, moment);
  if (window_.rose()) CountAnew();
  if (!share) return;
  merged_share_ += *share;
  ++merged_;
  if (watching() && tight_ == tight_before_ && merged_ < kMostMerged) return;
  try {
    Judge(merged_share_ / merged_);
  } catch (const std::exception&) {  // no host memory to watch with
    GiveUp();
  }
  merged_share_ = 0.0;
  merged_ = 0;
  tight_before_ = tight_;
  const Stitched stitched = std::exchange(in_window_, {});
  if (stitched.largest != 0 && !sorting()) stitched_ = stitched;
}

// In a window that has ended.
void LifetimeRooms::Judge(double share) {
  const std::optional<double> accuracy = TakeAccuracy();
  if (turning_back_ > 0) --turning_back_;
  if (pause_ > 0) {
    --pause_;
    return;
  }
  switch (state_) {
    case State::kOff:
      if (share > kWorth) Watch();
      return;
    case State::kWatching:
      return JudgeWatched(share, accuracy);
    case State::kSorting:
      return JudgeSorted(share, accuracy);
  }
}

void LifetimeRooms::JudgeWatched(double share, std::optional<double> accuracy) noexcept {
  if (++watched_windows_ > kMostWatched) return GiveUp();
  const bool told = tight_ != tight_before_ && accuracy && *accuracy >= kAccurate;
  if (!told || share <= kWorth / 2) return CountAnew();
  shares_ += share;
  if (++windows_ >= kWindows && shares_ > windows_ * kWorth) Sort();
}

void LifetimeRooms::JudgeSorted(double share, std::optional<double> accuracy) noexcept {
  if (tight_ == tight_before_) return GiveUp();  // what memory was tight for does not come any more
  inaccurate_ = accuracy && *accuracy < kNotAccurate ? inaccurate_ + 1 : 0;
  if (inaccurate_ >= kMostInaccurate) return GiveUp();
  if (++windows_ <= kTurning) return;
  shares_ += share;
  if (windows_ < kTurning + kWindows) return;
  const double average = shares_ / kWindows;
  if (average > (helps_ ? 1.0 : kHelped) * share_before_) return GiveUp();
  helps_ = true;
  wants_more_ = average > kWorth && !has_more_;
  next_pause_ = kFirstPause;
  windows_ = kTurning;
  shares_ = 0.0;
}

void LifetimeRooms::NoteGrowth() noexcept {
  if (sorting()) {
    GiveUp();
  } else {
    CountAnew();
  }
  window_.Restart();
}

void LifetimeRooms::CountAnew() noexcept {
  windows_ = 0;
  shares_ = merged_share_ = 0.0;
  merged_ = 0;
  ended_granules_ = right_granules_ = 0;
}

void LifetimeRooms::Watch() {
  watched_ = std::make_unique<Watched>();
  state_ = State::kWatching;
  watched_windows_ = 0;
  stitched_ = in_window_ = {};
  CountAnew();
}

void LifetimeRooms::Sort() noexcept {
  state_ = State::kSorting;
  share_before_ = shares_ / windows_;
  helps_ = false;
  inaccurate_ = 0;
  CountAnew();
}

void LifetimeRooms::TurnOff() noexcept {
  state_ = State::kOff;
  watched_.reset();
  wants_more_ = has_more_ = false;
  CountAnew();
}

// Tried again after twice as long: programs change.
void LifetimeRooms::GiveUp() noexcept {
  if (sorting()) turning_back_ = kTurningBack;
  TurnOff();
  pause_ = next_pause_;
  next_pause_ = std::min(2 * next_pause_, kLongestPause);
}

std::optional<double> LifetimeRooms::TakeAccuracy() noexcept {
  const auto ended = static_cast<double>(std::exchange(ended_granules_, 0));
  const auto right = static_cast<double>(std::exchange(right_granules_, 0));
  if (ended == 0.0) return std::nullopt;
  return right / ended;
}

}  // namespace stalloc::runtime
