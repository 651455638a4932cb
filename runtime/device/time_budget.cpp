#include "runtime/device/time_budget.h"

#include <algorithm>

namespace stalloc::runtime {

namespace {

// A program that repeats itself has ended its mapping by then: it stitches in its second and third iteration, and once
// more when a kind of iteration comes for the first time.
constexpr unsigned kPatience = 3;

// A raise where the budget is not exceeded by much; otherwise twice that, and then what was given is doubled.
constexpr double kStep = 0.02;
constexpr double kMuch = 2.0;

// So many raises must have lowered the cost to so much of what it was before.
constexpr unsigned kTrials = 3;
constexpr double kHelped = 0.75;

static_assert(TimeBudget::kShare == 0.04 && TimeBudget::kMostGrowth == 1.5, "STALLOC_GROWTH's sentence says so");

}  // namespace

bool TimeBudget::Spent(std::uint64_t cost_ns, const Moment& moment) noexcept {
  if (!automatic_) return false;
  const std::optional<double> share = window_.Spent(cost_ns, moment);
  if (window_.rose()) exceeded_ = 0;
  if (!share) return false;

  const double before = share_;
  share_ = *share;
  const bool raised = growth_ > 1.0;
  const bool settling = !raised && share_ < before / 2;
  exceeded_ = share_ <= kShare || settling ? 0 : exceeded_ + 1;
  // What was given before shows in the very next window.
  return !in_vain_ && growth_ < kMostGrowth && exceeded_ >= (raised ? 1 : kPatience);
}

double TimeBudget::next_growth() const noexcept {
  const double held_more = growth_ - 1.0;
  const double step = share_ > kMuch * kShare ? std::max(2 * kStep, held_more) : kStep;
  return std::min(kMostGrowth, 1.0 + held_more + step);
}

void TimeBudget::Raise() noexcept {
  if (raises_ == 0) share_before_ = share_;
  if (raises_++ == kTrials) {
    in_vain_ = share_ > kHelped * share_before_;
    if (in_vain_) return;
    share_before_ = share_;
    raises_ = 1;
  }
  growth_ = next_growth();
}

void TimeBudget::Pause() noexcept {
  exceeded_ = 0;
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
