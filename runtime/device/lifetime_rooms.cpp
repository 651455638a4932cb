#include "runtime/device/lifetime_rooms.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

namespace stalloc::runtime {

namespace {

// Memory is tight for every request of this part of the largest for which there is no one room, whether or not there is
// one for it this time.
constexpr double kTight = 0.75;

// So many windows say what mapping costs, before blocks are sorted and when they are: in one it may cost a third of
// what it does in the next. A program that only settles has a window without any by then.
constexpr unsigned kWindows = 3;
// What is being sorted lies among what was not for that long.
constexpr unsigned kTurning = 1;
// A program whose blocks cannot be told by then is not watched any longer.
constexpr unsigned kMostWatched = 12;

// Guessed right must be such a share of the bytes that end in a window: of a mixture of experts 99.9 % are, of programs
// whose iterations differ in what they do, and which sorting does not help, 80 to 98 (tests/bench/RESULTS.md).
constexpr double kAccurate = 0.98;
constexpr double kNotAccurate = 0.95;
// Sorting must lower the cost to that.
constexpr double kHelped = 0.75;

}  // namespace

LifetimeRooms::Guess LifetimeRooms::Ask(Granule granules) noexcept {
  if (largest_ != 0 && granules >= kTight * largest_) ++tight_;
  Guess guess{.path = watched_->predictor.Follow(granules)};
  if (granules < kLeast) return {};
  guess.lasts = watched_->predictor.Lasts(guess.path).value_or(false);
  if (sorting()) guess.room = guess.lasts ? Room::kLowest : Room::kEnd;
  return guess;
}

void LifetimeRooms::Note(std::uint64_t key, const Guess& guess, Granule granules, bool in_view) noexcept {
  if (!watching()) return;
  if (in_view) {
    if (granules > largest_) ++tight_;
    window_largest_ = std::max(window_largest_, granules);
    largest_ = std::max(largest_, granules);
  }
  if (watched_->blocks.size() + 1 >= kMostBlocks) return;
  watched_->blocks.Insert(key, {.path = guess.path, .tight = tight_, .guessed_to_last = guess.lasts});
}

void LifetimeRooms::End(std::uint64_t key, Granule granules) noexcept {
  watched_->predictor.NoteFree();
  Block block;
  if (!watched_->blocks.Extract(key, &block)) return;
  const bool lasted = block.tight != tight_;
  watched_->predictor.Learn(block.path, block.guessed_to_last, lasted);
  ended_granules_ += granules;
  if (lasted == block.guessed_to_last) right_granules_ += granules;
}

void LifetimeRooms::Spent(std::uint64_t cost_ns, const CostWindow::Moment& moment) noexcept {
  const std::optional<double> share = window_.Spent(cost_ns, moment);
  if (window_.rose()) windows_ = 0, shares_ = 0.0;
  if (!share) return;
  try {
    Judge(*share);
  } catch (const std::exception&) {  // no host memory to watch with
    GiveUp();
  }
  if (window_largest_ != 0) largest_ = std::exchange(window_largest_, 0);
}

// In a window that has ended.
void LifetimeRooms::Judge(double share) {
  const double accuracy = TakeAccuracy();
  if (pause_ > 0) {
    --pause_;
    return;
  }
  if (!watching()) {
    if (share > kWorth) Watch();
    return;
  }
  if (!sorting()) {
    if (++watched_windows_ > kMostWatched) return GiveUp();
    if (accuracy < kAccurate || share <= kWorth / 2) {
      windows_ = 0;
      shares_ = 0.0;
      return;
    }
    shares_ += share;
    if (++windows_ >= kWindows && shares_ > windows_ * kWorth) Sort();
    return;
  }
  if (accuracy < kNotAccurate) return GiveUp();
  if (++windows_ <= kTurning) return;
  shares_ += share;
  if (windows_ < kTurning + kWindows) return;
  const double now = shares_ / kWindows;
  if (now > (helps_ ? 1.0 : kHelped) * share_before_) return GiveUp();
  helps_ = true;
  windows_ = kTurning;
  shares_ = 0.0;
}

void LifetimeRooms::Watch() {
  watched_ = std::make_unique<Watched>();
  state_ = State::kWatching;
  watched_windows_ = 0;
  windows_ = 0;
  shares_ = 0.0;
  largest_ = window_largest_ = 0;
}

void LifetimeRooms::Sort() noexcept {
  state_ = State::kSorting;
  share_before_ = shares_ / windows_;
  helps_ = false;
  windows_ = 0;
  shares_ = 0.0;
}

// Tried again after twice as long: programs change.
void LifetimeRooms::GiveUp() noexcept {
  state_ = State::kOff;
  watched_.reset();
  pause_ = next_pause_;
  next_pause_ = std::min(2 * next_pause_, kLongestPause);
}

double LifetimeRooms::TakeAccuracy() noexcept {
  const auto ended = static_cast<double>(std::exchange(ended_granules_, 0));
  const auto right = static_cast<double>(std::exchange(right_granules_, 0));
  return ended == 0.0 ? 0.0 : right / ended;
}

}  // namespace stalloc::runtime
