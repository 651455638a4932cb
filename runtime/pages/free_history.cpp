#include "runtime/pages/free_history.h"

#include <array>

namespace stalloc::runtime {

namespace {

constexpr float kKept = 0.875F;

// kKept to the power of n. From the last n on a share is as good as 0.
constexpr auto kPowers = [] {
  std::array<float, 64> powers{1.0F};
  for (std::size_t n = 1; n < powers.size(); ++n) powers[n] = powers[n - 1] * kKept;
  return powers;
}();

}  // namespace

void FreeHistory::Note(std::span<const PageNumber> free) noexcept {
  ++times_;
  for (const PageNumber page : free) {
    const float before = Share(page);
    pages_[page] = {.share = before + (1.0F - kKept), .last = times_};
  }
}

// Of a page that is not free nothing is written down: the times since it last was are made up for here.
float FreeHistory::Share(PageNumber page) const noexcept {
  const std::uint32_t missed = times_ - pages_[page].last;
  return missed < kPowers.size() ? pages_[page].share * kPowers[missed] : 0.0F;
}

}  // namespace stalloc::runtime
