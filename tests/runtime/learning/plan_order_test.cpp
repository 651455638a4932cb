// The order between streams as the planner is given it, of blocks that were seen to be made and freed on two streams.
#include "runtime/learning/plan_order.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "planner/problem_check.h"
#include "runtime/learning/plan_problem.h"

namespace stalloc::runtime {
namespace {

constexpr std::uint64_t kBytes = std::uint64_t{64} << 20;
constexpr StreamIndex kMain = 1, kSide = 2;

// An iteration of two blocks of the main stream, one after the other. The first is freed on a side stream.
class PlanOrder : public ::testing::Test {
 protected:
  PlanOrder() {
    pattern_.period = 10;
    pattern_.requests = {
        {.size_bytes = kBytes, .begin = 0, .end = 1, .example_block = 1},
        {.size_bytes = kBytes, .begin = 4, .end = 5, .example_block = 2},
    };
    seen_.Add(1, {.size_bytes = kBytes, .stream = kMain, .made_at = 0});
    seen_.Free(1, {kSide, 1}, 1);
    seen_.Add(2, {.size_bytes = kBytes, .stream = kMain, .made_at = 4});
    seen_.Free(2, {kMain, 1}, 5);
  }
  std::vector<SlotOrder> Add() {
    problem_ = ProblemOf(pattern_, &members_);
    std::vector<SlotOrder> slots = AddStreamOrder(pattern_, members_, seen_, order_, &problem_);
    EXPECT_EQ(planner::FindMalformed(problem_), std::nullopt);
    return slots;
  }

  Pattern pattern_;
  SeenBlocks seen_;
  SeenOrder order_;
  planner::Problem problem_;
  std::vector<std::size_t> members_;
};

TEST_F(PlanOrder, WhatTheProgramOrdersNeedsNoWait) {
  order_.Add(kMain, {kSide, 1}, 3);
  const std::vector<SlotOrder> slots = Add();
  EXPECT_EQ(problem_.requests[0].end, 3) << "then the main stream is behind the free";
  for (const SlotOrder& slot : slots) EXPECT_FALSE(slot.waits || slot.waited_for);
}

// Nothing orders the main stream behind the free: without a wait both blocks would be held, twice what lives at any
// moment.
TEST_F(PlanOrder, AStreamWaitsForWhatItHasMadeItself) {
  const std::vector<SlotOrder> slots = Add();
  ASSERT_EQ(slots.size(), 2u);
  EXPECT_TRUE(slots[0].waited_for);
  EXPECT_TRUE(slots[1].waits);
  EXPECT_EQ(problem_.requests[0].end, 4) << "when the second begins";
}

}  // namespace
}  // namespace stalloc::runtime
