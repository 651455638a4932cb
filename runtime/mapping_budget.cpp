#include "runtime/mapping_budget.h"

#include <algorithm>

namespace stalloc::runtime {

namespace {

// A step hands out two to twelve times what is live at its peak (the recorded training runs), so that a window holds
// about one iteration at least, mostly several.
constexpr double kTurnovers = 16.0;
constexpr std::uint64_t kLeastWindowNs = 50'000'000;

// A program that repeats itself has ended its mapping by then: it stitches in its second and third iteration, and once
// more when a kind of iteration comes for the first time.
constexpr unsigned kPatience = 3;

// A peak that rises by more than this share within a window is that of a program that has not shown all its sizes.
constexpr double kRise = 1.0 / 64;

// Growth for each time that the budget is exceeded: this much for each time that it is spent over, within bounds.
constexpr double kStep = 0.005;
constexpr double kLeastStep = 0.01;
constexpr double kMostStep = 0.06;

}  // namespace

bool MappingBudget::Spent(std::uint64_t stitching_ns, const Moment& moment) noexcept {
  if (!automatic_) return false;
  if (!window_.open) window_ = {.open = true, .begin = moment};
  window_.stitching_ns += stitching_ns;

  const auto peak = static_cast<double>(moment.peak_live_bytes);
  if (peak > static_cast<double>(window_.begin.peak_live_bytes) * (1.0 + kRise)) {
    window_ = {.open = true, .begin = moment};
    exceeded_ = 0;
    return false;
  }
  const std::uint64_t elapsed_ns = moment.now_ns - window_.begin.now_ns;
  const auto allocated = static_cast<double>(moment.allocated_bytes - window_.begin.allocated_bytes);
  if (elapsed_ns < kLeastWindowNs || allocated < kTurnovers * peak) return false;

  const double before = share_;
  share_ = static_cast<double>(window_.stitching_ns) / static_cast<double>(elapsed_ns);
  window_ = {.open = true, .begin = moment};
  const bool settling = !waits_first_ && share_ < before / 2;
  exceeded_ = share_ <= kShare || settling ? 0 : exceeded_ + 1;
  // What was given before shows in the very next window.
  return exceeded_ >= (waits_first_ ? 1 : kPatience);
}

void MappingBudget::Exceed(bool memory_is_ample) noexcept {
  waits_first_ = true;
  if (!memory_is_ample) return;
  growth_ = std::min(kMostGrowth, growth_ + std::clamp(kStep * share_ / kShare, kLeastStep, kMostStep));
}

void MappingBudget::MemoryIsShort() noexcept {
  if (!automatic_) return;
  growth_ = 1.0;
  exceeded_ = 0;
  window_.open = false;
}

}  // namespace stalloc::runtime
