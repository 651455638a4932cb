// The plan in force by how short memory is: the decision as arithmetic, and a training loop over the model driver in
// which somebody else needs the device.
#include "runtime/learning/plan_choice.h"

#include <gtest/gtest.h>

#include "model_test.h"
#include "training_loop.h"

namespace stalloc::runtime {
namespace {

using planner::PlanChoice;
using planner::PlanFront;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

PlanChoice Choice(std::uint64_t pages, std::uint64_t handles, std::uint64_t waits = 0) {
  PlanChoice choice;
  choice.merits = {.pages = pages, .handles = handles, .waits = waits};
  return choice;
}

// In force are 5000 pages, which is all that is held; others need 4500 pages and one mapped handle each, or 4000.
PlanFront Example() {
  PlanFront front;
  front.choices = {Choice(5000, 0), Choice(4000, 4000), Choice(4500, 500), Choice(3999, 200'000), Choice(4998, 0)};
  return front;
}

MemoryPressure PressureWith(std::uint64_t free_bytes, std::uint64_t refused_bytes = 0) {
  return {.held_bytes = 5000 * kPageBytes,
          .free_bytes = free_bytes,
          .device_bytes = 24 * kGiB,
          .limit_bytes = kNoLimit,
          .refused_bytes = refused_bytes};
}

TEST(SmallerChoice, StaysWhileMemoryIsAmple) {
  EXPECT_EQ(SmallerChoice(Example(), 0, 0, PressureWith(8 * kGiB)), std::nullopt);
  EXPECT_EQ(SmallerChoice(Example(), 0, 0, PressureWith(24 * kGiB / 64)), std::nullopt)
      << "just as much as is left alone";
  EXPECT_EQ(SmallerChoice(Example(), 0, 0, PressureWith(8 * kGiB, kGiB)), std::nullopt)
      << "it was refused, and is there";
}

TEST(SmallerChoice, TakesWhatMapsLeastOfWhatIsSmallEnough) {
  EXPECT_EQ(SmallerChoice(Example(), 0, 0, PressureWith(kGiB, kGiB + 400 * kPageBytes)), 2u);
  EXPECT_EQ(SmallerChoice(Example(), 0, 0, PressureWith(kGiB, kGiB + 600 * kPageBytes)), 1u);
  EXPECT_EQ(SmallerChoice(Example(), 0, 0, PressureWith(0)), 2u) << "a 64th is 192 pages";
  MemoryPressure limited = PressureWith(8 * kGiB, 700 * kPageBytes);
  limited.limit_bytes = 5100 * kPageBytes;
  EXPECT_EQ(SmallerChoice(Example(), 0, 0, limited), 1u);
}

// 3999 pages would take 200 handles for each page saved; 4998 are hardly fewer.
TEST(SmallerChoice, MovesForNothingThatIsNotWorthIt) {
  PlanFront front = Example();
  front.choices = {front.choices[0], front.choices[3], front.choices[4]};
  EXPECT_EQ(SmallerChoice(front, 0, 0, PressureWith(0)), std::nullopt);
  EXPECT_EQ(SmallerChoice(Example(), 1, 0, PressureWith(0)), std::nullopt) << "the smallest that there is";
  EXPECT_EQ(SmallerChoice(PlanFront{}, 0, 0, PressureWith(0)), std::nullopt);
}

// cuDNN asks for all there is, and for less when it is refused.
TEST(SmallerChoice, DoesNotMoveForWhatNoPlanCanGive) {
  EXPECT_EQ(SmallerChoice(Example(), 0, 0, PressureWith(kGiB, 20 * kGiB)), std::nullopt);
}

// Pages of blocks that the plan does not know, and pages that do not exist, are nobody's to plan with.
TEST(SmallerChoice, LeavesOthersTheirPages) {
  MemoryPressure pressure = PressureWith(kGiB, kGiB + 400 * kPageBytes);
  pressure.held_bytes += 300 * kPageBytes;
  EXPECT_EQ(SmallerChoice(Example(), 0, 0, pressure), 2u);
  PlanFront front = Example();
  for (PlanChoice& choice : front.choices) choice.merits.pages += 70;
  EXPECT_EQ(SmallerChoice(front, 0, 70, pressure), 2u);
}

class PlanByPressure : public ModelTest {};

TEST_F(PlanByPressure, GivesWayToSomebodyElseAndTrainsOn) {
  TrainingLoop loop(device_, api_, {.growth = 1.3});
  ASSERT_TRUE(loop.Until(PlanStatus::State::kSettled));
  ASSERT_TRUE(loop.UntilThereIsAChoice());
  const std::uint64_t held = loop.held_bytes();
  for (int i = 0; i < 50; ++i) loop.Iterate();
  EXPECT_EQ(loop.status().pressure_switches, 0u) << "memory is ample";
  EXPECT_EQ(loop.held_bytes(), held);
  EXPECT_EQ(loop.planned(), loop.kRequests);

  // Another process takes nearly all that is left.
  const std::uint64_t others = device_.total_bytes - device_.used_bytes - 8 * kMiB;
  device_.used_bytes += others;
  const std::uint64_t iterations = loop.memory().Counters().iterations;
  for (int i = 0; i < 30; ++i) loop.Iterate();
  EXPECT_EQ(loop.status().pressure_switches, 1u);
  EXPECT_EQ(loop.memory().Counters().iterations, iterations + 30) << "none is lost where another plan takes over";
  EXPECT_GE(device_.total_bytes - device_.used_bytes, device_.total_bytes / 64) << "as much as is left to others";
  EXPECT_EQ(loop.planned(), loop.kRequests);
  EXPECT_GT(loop.held_bytes(), 650 * kMiB) << "no more than that: each page less costs handles";

  // A library in this one is refused a workspace in the middle of a step. What is idle at that moment is given back,
  // and the workspace is had; but the plan's next step needs those pages too.
  const std::uint64_t workspace = 120 * kMiB;
  loop.at_the_peak = [&] {
    EXPECT_LT(device_.total_bytes - device_.used_bytes, workspace);
    EXPECT_GT(loop.memory().ReleaseIdle(), 0u);
    EXPECT_GE(device_.total_bytes - device_.used_bytes, workspace);
    device_.used_bytes += workspace;
  };
  loop.Iterate();
  loop.at_the_peak = nullptr;
  for (int i = 0; i < 30; ++i) loop.Iterate();
  EXPECT_EQ(loop.status().pressure_switches, 2u);
  EXPECT_LT(loop.held_bytes(), 620 * kMiB);
  EXPECT_EQ(loop.planned(), loop.kRequests);

  // Nothing more can be done; nothing is tried over and over. Nor is there a reason to go back when they have left.
  const std::uint64_t mapped = loop.memory().Counters().map_calls;
  for (int i = 0; i < 500; ++i) loop.Iterate();
  device_.used_bytes -= workspace + others;
  for (int i = 0; i < 1000; ++i) loop.Iterate();
  EXPECT_EQ(loop.status().pressure_switches, 2u);
  EXPECT_EQ(loop.memory().Counters().map_calls, mapped);
  EXPECT_EQ(loop.planned(), loop.kRequests);
}

// A warm-up with twice the batch leaves pages idle that the plan does not touch: they go first, and the plan stays.
TEST_F(PlanByPressure, GivesBackWhatThePlanDoesNotTouch) {
  TrainingLoop loop(device_, api_, {});
  for (int i = 0; i < 3; ++i) loop.Iterate(200);
  ASSERT_TRUE(loop.Until(PlanStatus::State::kSettled));
  const std::uint64_t held = loop.held_bytes();
  EXPECT_GT(held, 1000 * kMiB);
  for (int i = 0; i < 50; ++i) loop.Iterate();
  EXPECT_EQ(loop.held_bytes(), held) << "memory is ample";

  device_.used_bytes = device_.total_bytes - 8 * kMiB;
  for (int i = 0; i < 30; ++i) loop.Iterate();
  EXPECT_LT(loop.held_bytes(), 800 * kMiB);
  EXPECT_EQ(loop.planned(), loop.kRequests);
  EXPECT_EQ(loop.status().pressure_switches, 0u);
}

}  // namespace
}  // namespace stalloc::runtime
