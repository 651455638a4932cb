#include "runtime/device/time_budget.h"

#include <algorithm>

namespace stalloc::runtime {

namespace {

// So many windows, a second at least, must exceed the budget one after the other. Three gave a mixture of experts more
// before it could be sorted, five came a second later (tests/bench/RESULTS.md). A program that only settles has one
// among them that costs less than half of the one before.
constexpr unsigned kPatience = 4;

// Where the budget is exceeded by so much, more than kStep is given: such a part of what it costs, and no less than
// what was given already, so that that is doubled; but no more at once, for it may not help. A program whose sizes are
// new in every step and that works on two streams took a third more time than it needed, and was within the budget with
// a third more memory.
constexpr double kMuch = 2.0;
constexpr double kOfCost = 0.5;
constexpr double kMostAtOnce = 0.15;

// So many raises, by so much in all, must have lowered the cost, over so many windows, to so much of what it was.
constexpr unsigned kTrials = 2;
constexpr double kTrialGrowth = 2.5 * TimeBudget::kStep;
constexpr unsigned kToJudge = 3;
constexpr double kHelped = 0.75;

static_assert(TimeBudget::kShare == 0.04 && TimeBudget::kMostGrowth == 1.5, "STALLOC_GROWTH's sentence says so");

}  // namespace

bool TimeBudget::Spent(std::uint64_t cost_ns, const Moment& moment) noexcept {
  if (!automatic_) return false;
  const std::optional<double> share = window_.Spent(cost_ns, moment);
  if (window_.rose()) BeginAnew();
  if (!share) return false;

  const double before = share_;
  share_ = *share;
  const bool raised = growth_ > 1.0;
  if (!raised && (share_ <= kShare || share_ < before / 2)) {
    BeginAnew();
    return false;
  }
  ++windows_;
  shares_ += share_;
  if (in_vain_ || growth_ >= kMostGrowth) return false;
  if (!raised) return windows_ >= kPatience;
  // What was given before shows in the very next window, but one window is not like the other.
  if (mean_share() > kShare) return windows_ >= (to_be_judged() ? kToJudge : 1);
  if (windows_ >= kToJudge) BeginAnew();
  return false;
}

bool TimeBudget::to_be_judged() const noexcept {
  return raises_ >= kTrials && growth_ - growth_before_ >= kTrialGrowth;
}

bool TimeBudget::Raise(double most) noexcept {
  if (windows_ == 0) return false;
  const double share = mean_share();
  if (to_be_judged()) {
    in_vain_ = share > kHelped * share_before_;
    if (in_vain_) return false;
    raises_ = 0;
  }
  if (raises_++ == 0) {
    share_before_ = share;
    growth_before_ = growth_;
  }
  const double much = std::min(std::max({2 * kStep, growth_ - 1.0, kOfCost * share}), kMostAtOnce);
  growth_ = std::min({kMostGrowth, most, growth_ + (share > kMuch * kShare ? much : kStep)});
  BeginAnew();
  return true;
}

void TimeBudget::Pause() noexcept {
  BeginAnew();
  window_.Restart();
}

void TimeBudget::MemoryIsShort() noexcept {
  if (!automatic_) return;
  growth_ = 1.0;
  raises_ = 0;
  in_vain_ = false;
  Pause();
}

}  // namespace stalloc::runtime
