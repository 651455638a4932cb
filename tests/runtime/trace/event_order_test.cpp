#include "trace/event_order.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace stalloc::runtime {
namespace {

constexpr std::size_t kPatience = 3;

class EventOrderTest : public ::testing::Test {
 protected:
  // One round in which these numbers arrive; returns the numbers that go on.
  std::vector<std::uint64_t> Round(std::initializer_list<std::uint64_t> sequences, bool all = false) {
    for (std::uint64_t sequence : sequences) {
      planner::TraceEvent event;
      event.sequence = sequence;
      order.Add(event);
    }
    std::vector<std::uint64_t> emitted;
    order.EndRound(all, [&](std::span<const planner::TraceEvent> events) {
      for (const planner::TraceEvent& event : events) emitted.push_back(event.sequence);
    });
    return emitted;
  }

  EventOrder order{kPatience};
};

using Sequences = std::vector<std::uint64_t>;

TEST_F(EventOrderTest, SortsWhatComesTogether) {
  EXPECT_EQ(Round({1, 3, 0, 2}), (Sequences{0, 1, 2, 3}));
  EXPECT_EQ(Round({}), Sequences{});
  EXPECT_EQ(Round({5, 4}), (Sequences{4, 5}));
}

TEST_F(EventOrderTest, HoldsBackWhileALowerNumberIsMissing) {
  EXPECT_EQ(Round({0, 2, 3}), Sequences{0});
  EXPECT_EQ(Round({}), Sequences{});
  EXPECT_EQ(Round({1, 4}), (Sequences{1, 2, 3, 4}));
  EXPECT_EQ(order.late(), 0U);
}

TEST_F(EventOrderTest, GivesAGapUpAfterItsPatience) {
  EXPECT_EQ(Round({0, 2}), Sequences{0});
  for (std::size_t i = 1; i < kPatience; ++i) EXPECT_EQ(Round({}), Sequences{});
  EXPECT_EQ(Round({}), Sequences{2});
  EXPECT_EQ(Round({1, 3}), (Sequences{1, 3}));
  EXPECT_EQ(order.late(), 1U);
}

// Every second number is missing for ever, and more come: what goes on is always kPatience rounds behind, no more.
TEST_F(EventOrderTest, ManyGapsDoNotPileUp) {
  std::uint64_t next = 1;
  std::size_t held = 0;
  for (int round = 0; round < 100; ++round) {
    const Sequences emitted = Round({next, next + 2, next + 4});
    next += 6;
    held = held + 3 - emitted.size();
    EXPECT_LE(held, 3 * kPatience);
  }
}

TEST_F(EventOrderTest, AllMeansAll) {
  EXPECT_EQ(Round({7, 9}, true), (Sequences{7, 9}));
  EXPECT_EQ(Round({10, 8}), (Sequences{8, 10}));
  EXPECT_EQ(order.late(), 1U);
}

}  // namespace
}  // namespace stalloc::runtime
