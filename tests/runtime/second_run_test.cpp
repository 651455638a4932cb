// What keeps a run that starts from a kept plan from holding more than the run that made it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "model_test.h"
#include "planner/plan_file.h"
#include "training_loop.h"

namespace stalloc::runtime {
namespace {

class SecondRunTest : public ModelTest {
 protected:
  ~SecondRunTest() override { std::remove(file_.c_str()); }
  const std::string file_ = testing::TempDir() + "stalloc_second_run_" + std::to_string(::getpid()) + ".plan";
};

// A part that repeats settles before the first iteration is over, and no iteration is looked for when the optimizer
// makes its state. The plan for the next run knows that state nevertheless: where else would its slots lie?
TEST_F(SecondRunTest, WhatIsMadeWhileNoIterationIsLookedForHasItsPlaceInTheKeptPlan) {
  constexpr std::uint64_t kStates = 20;
  TrainingLoop loop(device_, api_, {}, {.file = file_});
  for (int i = 0; i < 100 && loop.status().state != PlanStatus::State::kSettled; ++i) loop.Repeat(200);
  ASSERT_EQ(loop.status().state, PlanStatus::State::kSettled);
  for (std::uint64_t i = 0; i < kStates; ++i) loop.Keep(31 * kMebibyte, 500 + i);
  for (int i = 0; i < 1000 && loop.planned() != loop.kRequests; ++i) loop.Iterate();
  ASSERT_EQ(loop.planned(), loop.kRequests);
  const auto kept = planner::ReadPlanFile(file_);
  ASSERT_TRUE(kept);
  ASSERT_EQ(kept->iteration.size(), TrainingLoop::kRequests);
  EXPECT_EQ(kept->persistent.size(), 4u + kStates) << "the weights and the optimizer's state";
}

// An iteration of a few blocks and parts that are all alike, as gradients cached for one chunk of the batch after the
// other.
class PartsLoop : public TrainingLoop {
 public:
  using TrainingLoop::TrainingLoop;
  static constexpr std::uint64_t kParts = 8;
  static constexpr std::uint64_t kOfAPart = 20;
  static constexpr std::uint64_t kWhole = kOfAPart * (1 + kParts);
  void IterateParts(std::uint64_t parts) {
    const std::uint64_t planned_before = memory().Counters().planned_requests;
    std::vector<Block> head = MakePart(100);
    for (std::uint64_t i = 0; i < parts; ++i) {
      FreeAll(MakePart(200));
      EndIteration(0);
    }
    FreeAll(head);
    EndIteration(planned_before);
  }

 private:
  std::vector<Block> MakePart(std::uint64_t call_site) {
    std::vector<Block> made;
    for (std::uint64_t i = 0; i < kOfAPart; ++i) made.push_back(Make(5 * kMebibyte, 1000 + call_site + i));
    return made;
  }
  void FreeAll(const std::vector<Block>& blocks) {
    for (const Block& block : blocks) Free(block);
  }
};

// The places of a kept plan are taken in part: it is made anew, but of the whole iteration and not of the first part of
// it that is seen to repeat.
TEST_F(SecondRunTest, APlanThatKnowsTheIterationGivesWayToNoPartOfIt) {
  {
    PartsLoop loop(device_, api_, {}, {.file = file_});
    for (int i = 0; i < 100 && loop.planned() != loop.kWhole; ++i) loop.IterateParts(loop.kParts);
    ASSERT_EQ(loop.planned(), loop.kWhole);
  }
  PartsLoop loop(device_, api_, {}, {.file = file_});
  ASSERT_EQ(loop.status().requests, loop.kWhole);
  loop.IterateParts(loop.kParts);
  for (std::uint64_t i = 0; i < 8; ++i) loop.Keep(60 * kMebibyte, 500 + i);
  for (int i = 0; i < 20; ++i) {
    loop.IterateParts(loop.kParts);
    EXPECT_EQ(loop.status().requests, loop.kWhole) << "iteration " << i;
  }
  EXPECT_EQ(loop.planned(), loop.kWhole);
}

}  // namespace
}  // namespace stalloc::runtime
