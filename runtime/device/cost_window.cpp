#include "runtime/device/cost_window.h"

namespace stalloc::runtime {

namespace {

// A peak that rises by more than this share within a window is that of a program that has not shown all its sizes.
constexpr double kRise = 1.0 / 64;

}  // namespace

std::optional<double> CostWindow::Spent(std::uint64_t cost_ns, const Moment& moment) noexcept {
  const auto begin = [&] {
    cost_ns_ = 0;
    begin_ = moment;
  };
  if (!begin_) {  // what was spent before the window began is none of its
    begin();
    rose_ = false;
    return std::nullopt;
  }
  cost_ns_ += cost_ns;

  const auto peak = static_cast<double>(moment.peak_live_bytes);
  rose_ = peak > static_cast<double>(begin_->peak_live_bytes) * (1.0 + kRise);
  if (rose_) {
    begin();
    return std::nullopt;
  }
  if (moment.now_ns < begin_->now_ns) return std::nullopt;  // another thread was faster
  const std::uint64_t elapsed_ns = moment.now_ns - begin_->now_ns;
  const auto allocated = static_cast<double>(moment.allocated_bytes - begin_->allocated_bytes);
  if (elapsed_ns < least_ns_ || allocated < turnovers_ * peak) return std::nullopt;

  const double share = static_cast<double>(cost_ns_) / static_cast<double>(elapsed_ns);
  begin();
  return share;
}

}  // namespace stalloc::runtime
