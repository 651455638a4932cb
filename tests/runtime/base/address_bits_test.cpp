#include "runtime/base/address_bits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <set>

namespace stalloc::runtime {
namespace {

class AddressBitsOfLimit : public testing::TestWithParam<std::uint32_t> {};

// A model: an ordered set.
TEST_P(AddressBitsOfLimit, FindsWhatAnOrderedSetFinds) {
  const std::uint32_t limit = GetParam();
  AddressBits bits(limit);
  std::set<std::uint32_t> model;
  std::mt19937 random(limit);
  // Members far apart and side by side; the last one often, for there every level ends.
  const auto any = [&] {
    const std::uint32_t near_end = limit - 1 - random() % std::min(limit, 3u);
    return random() % 4 == 0 ? near_end : random() % limit;
  };
  for (int step = 0; step < 4000; ++step) {
    const std::uint32_t member = any();
    if (random() % 2 == 0) {
      bits.Insert(member);
      model.insert(member);
    } else if (!model.empty()) {
      const auto found = model.lower_bound(member);
      const std::uint32_t erased = found == model.end() ? *model.begin() : *found;
      bits.Erase(erased);
      model.erase(erased);
    }
    const std::uint32_t bound = any();
    ASSERT_EQ(bits.Contains(bound), model.count(bound) != 0);
    const auto after = model.lower_bound(bound);
    ASSERT_EQ(bits.AtOrAfter(bound), after == model.end() ? AddressBits::kNone : *after) << bound;
    const auto before = model.upper_bound(bound);
    ASSERT_EQ(bits.AtOrBefore(bound), before == model.begin() ? AddressBits::kNone : *std::prev(before)) << bound;
    // Nothing lies at or behind the limit.
    ASSERT_EQ(bits.AtOrAfter(limit), AddressBits::kNone);
    ASSERT_EQ(bits.AtOrAfter(AddressBits::kNone), AddressBits::kNone);
  }
}

// One below, at and one above where a level's last word is full; what a device of 140 GiB has; and all there can be.
INSTANTIATE_TEST_SUITE_P(Limits, AddressBitsOfLimit,
                         testing::Values(1, 2, 63, 64, 65, 4095, 4096, 4097, 262143, 262144, 262145, 16777216, 16777217,
                                         293601281, 1073741823, 1073741825, 4294967295));

}  // namespace
}  // namespace stalloc::runtime
