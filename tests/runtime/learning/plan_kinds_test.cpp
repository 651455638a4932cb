// Several plans: a program that turns from one kind of iteration to another and back finds the plan of each again.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "model_test.h"
#include "planner/plan_file.h"
#include "training_loop.h"

namespace stalloc::runtime {
namespace {

class PlanKinds : public ModelTest {};

// All requests of an iteration but those by which its kind is recognised.
constexpr std::uint64_t kNearlyAll = TrainingLoop::kRequests - 14;

TEST_F(PlanKinds, AKnownBatchSizeIsPlannedFromItsFirstIterationOn) {
  TrainingLoop loop(device_, api_, {});
  ASSERT_TRUE(loop.Until(PlanStatus::State::kSettled));
  const std::uint64_t sizes[] = {60, 140, 100};
  for (const std::uint64_t percent : {60, 140}) {
    int iterations = 0;
    do loop.Iterate(percent);
    while (++iterations < 200 && loop.planned() != loop.kRequests);
    for (int i = 0; i < 12; ++i) loop.Iterate(percent);
    EXPECT_GT(iterations, 10) << "it has to be found first";
    EXPECT_EQ(loop.planned(), loop.kRequests);
  }
  EXPECT_EQ(loop.memory().Counters().plan_returns, 0u);

  std::uint64_t returns = 0;
  for (int round = 0; round < 12; ++round) {
    const std::uint64_t percent = sizes[(round + 2) % 3];
    loop.Iterate(percent);
    EXPECT_GE(loop.planned(), kNearlyAll) << "round " << round;
    EXPECT_EQ(loop.memory().Counters().plan_returns, ++returns);
    for (int i = 0; i < round; ++i) {
      loop.Iterate(percent);
      EXPECT_EQ(loop.planned(), loop.kRequests) << "round " << round;
    }
  }
  EXPECT_EQ(loop.status().requests, loop.kRequests);

  // What an empty_cache() takes away, views of all the plans among it, is mapped again; where some of a plan's pages
  // are gone and others are held in their place, those are used.
  for (int round = 0; round < 12; ++round) {
    if (round % 4 == 1) loop.memory().ReleaseIdle();
    for (int i = 0; i < 3; ++i) loop.Iterate(sizes[round % 3]);
    EXPECT_GE(loop.planned(), kNearlyAll) << "round " << round;
  }
}

// A measuring loop at the end is planned, and training again at once when that goes on; the next run begins with
// training.
TEST_F(PlanKinds, AShortLoopDoesNotTakeTheKeptPlansPlace) {
  const std::string path = testing::TempDir() + "stalloc_plan_kinds_" + std::to_string(::getpid());
  TrainingLoop loop(device_, api_, {}, {.file = path});
  ASSERT_TRUE(loop.Until(PlanStatus::State::kSettled));
  loop.Repeat(12'000);
  const std::uint64_t planned = loop.memory().Counters().planned_requests;
  loop.Repeat(1000);
  EXPECT_EQ(loop.memory().Counters().planned_requests - planned, 1000u);
  loop.Iterate();
  EXPECT_GE(loop.planned(), kNearlyAll);
  const auto kept = planner::ReadPlanFile(path);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->iteration.size(), loop.kRequests);
  std::remove(path.c_str());
}

// An iteration that no plan knows changes nothing for the one in force.
TEST_F(PlanKinds, AStrangeIterationIsNoReason) {
  TrainingLoop loop(device_, api_, {});
  ASSERT_TRUE(loop.Until(PlanStatus::State::kSettled));
  for (int i = 0; i < 100; ++i) loop.Iterate(60);
  ASSERT_EQ(loop.planned(), loop.kRequests);
  for (int i = 0; i < 5; ++i) {
    loop.Iterate(171);
    EXPECT_EQ(loop.memory().Counters().plan_returns, 0u);
    loop.Iterate(60);
    loop.Iterate(60);
    EXPECT_EQ(loop.planned(), loop.kRequests);
  }
}

}  // namespace
}  // namespace stalloc::runtime
