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

// Iterations of two shapes: the small blocks are the same in both, the large ones, nearly all of the memory, are not.
class ShapesLoop : public TrainingLoop {
 public:
  using TrainingLoop::TrainingLoop;
  static constexpr std::uint64_t kGroups = 20;
  static constexpr std::uint64_t kShapeRequests = 5 * kGroups;
  // Two large blocks and three small ones again and again, then `more` large ones.
  void IterateShape(std::uint64_t large_bytes, int more) {
    const std::uint64_t planned = memory().Counters().planned_requests;
    std::vector<Block> made;
    for (std::uint64_t i = 0; i < kGroups; ++i) {
      for (std::uint64_t k = 0; k < 2; ++k) made.push_back(Make(large_bytes, 800 + 2 * i + k));
      for (std::uint64_t k = 0; k < 3; ++k) made.push_back(Make(4096, 700 + 3 * i + k));
    }
    for (int i = 0; i < more; ++i) made.push_back(Make(large_bytes, 900));
    for (const Block& block : made) Free(block);
    EndIteration(planned);
  }
};

// Small blocks in their slots, at distances of the other shape's large ones, would leave gaps into which not many of
// this shape's fit, and pages of which each has a little taken.
TEST_F(SecondRunTest, AnotherShapeOfIterationIsNotStrewnWithTheSlotsOfThisOne) {
  ShapesLoop loop(device_, api_, {});
  for (int i = 0; i < 100 && loop.planned() != loop.kShapeRequests; ++i) loop.IterateShape(47 * kMebibyte / 10, 0);
  ASSERT_EQ(loop.planned(), loop.kShapeRequests);
  const std::uint64_t held = loop.held_bytes();
  loop.IterateShape(35 * kMebibyte / 10, 13);  // less in all
  EXPECT_LE(loop.held_bytes(), held + 2 * kPageBytes);
}

}  // namespace
}  // namespace stalloc::runtime
