// Learner: what is planned once there is a plan, and what becomes of one that does not do well.
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "model_test.h"
#include "training_loop.h"

namespace stalloc::runtime {
namespace {

class LearnerTest : public ModelTest {};

// The first plan is made before the optimizer has its state, which then lies where the plan wants to put things; and
// just then no two iterations are alike.
TEST_F(LearnerTest, AProgramWhosePlanFindsItsPlacesTakenIsWatchedOn) {
  TrainingLoop loop(device_, api_, {});
  ASSERT_TRUE(loop.Until(PlanStatus::State::kOnTrial));
  for (std::uint64_t i = 0; i < loop.kLayers; ++i) loop.Keep(31 * kMebibyte, 500 + i);
  loop.Iterate();
  ASSERT_LT(loop.planned(), loop.kRequests / 4) << "the places are taken";
  for (int i = 0; i < 100 && loop.status().state == PlanStatus::State::kOnTrial; ++i) {
    loop.Chance(8);
    loop.Iterate();
  }
  ASSERT_EQ(loop.status().state, PlanStatus::State::kWatching);
  int iterations = 0;
  while (loop.planned() != loop.kRequests && ++iterations < 100) loop.Iterate();
  EXPECT_LT(iterations, 20);
}

// A loss that is looked at a step later is no part of the plan; wherever it lay it would keep slots from being used.
TEST_F(LearnerTest, WhatLivesIntoTheNextIterationIsInNobodysWay) {
  for (const std::uint64_t bytes : {std::uint64_t{4}, std::uint64_t{3000}, kMebibyte / 2, 9 * kMebibyte}) {
    TrainingLoop loop(device_, api_, {});
    loop.loss_bytes = bytes;
    ASSERT_TRUE(loop.Until(PlanStatus::State::kOnTrial));
    const std::uint64_t maps = loop.memory().Counters().map_calls;
    for (int i = 0; i < 20; ++i) {
      loop.Iterate();
      EXPECT_EQ(loop.planned(), loop.kRequests) << "iteration " << i << " of the plan, a loss of " << bytes;
    }
    EXPECT_EQ(loop.status().state, PlanStatus::State::kSettled);
    EXPECT_EQ(loop.memory().Counters().map_calls, maps);
  }
}

// Iterations that were alike but for their sizes, and are not any more: what the plan does not serve is in its way.
// Nothing is kept of it then, and the statistics name no file.
TEST_F(LearnerTest, APlanOfSizesThatScaleEndsWhereItServesLessThanHalf) {
  const std::string file = testing::TempDir() + "stalloc_learner_" + std::to_string(::getpid()) + ".plan";
  TrainingLoop loop(device_, api_, {}, {.file = file});
  std::uint64_t i = 0;
  const auto iterate = [&] { loop.Iterate(80 + i++ * 7 % 21); };
  while (loop.status().state != PlanStatus::State::kOnTrial && i < 100) iterate();
  ASSERT_TRUE(loop.memory().ScaledPlan());
  iterate();
  ASSERT_GT(loop.planned(), loop.kRequests / 2);
  EXPECT_EQ(loop.status().file, file);
  EXPECT_EQ(::access(file.c_str(), F_OK), 0);
  int iterations = 0;
  for (; loop.status().state == PlanStatus::State::kOnTrial && iterations < 100; ++iterations) {
    loop.Chance(150);
    iterate();
  }
  EXPECT_EQ(loop.status().state, PlanStatus::State::kLeftAlone);
  EXPECT_LT(iterations, 8);
  EXPECT_EQ(loop.status().file, "");
  EXPECT_NE(::access(file.c_str(), F_OK), 0);
}

// To be watched costs a program time: one that could not be planned is looked at again, but not as long.
TEST_F(LearnerTest, AProgramThatCannotBePlannedIsWatchedLessEachTime) {
  TrainingLoop loop(device_, api_, {});
  const auto iterations_until = [&](PlanStatus::State state) {
    int iterations = 0;
    for (; loop.status().state != state && iterations < 2000; ++iterations) loop.IterateExperts();
    return iterations;
  };
  const int first = iterations_until(PlanStatus::State::kLeftAlone);
  EXPECT_EQ(loop.status().reason, PlanStatus::Reason::kIterationsDiffer);
  ASSERT_LT(iterations_until(PlanStatus::State::kWatching), 2000) << "it is not given up for ever";
  const int second = iterations_until(PlanStatus::State::kLeftAlone);
  EXPECT_LE(second, first / 2 + 1);
  ASSERT_LT(iterations_until(PlanStatus::State::kWatching), 2000);
  EXPECT_LE(iterations_until(PlanStatus::State::kLeftAlone), second);
  EXPECT_EQ(loop.planned(), 0u);
  int watched = 0;
  constexpr int kIterations = 2000;
  for (int i = 0; i < kIterations; ++i) {
    loop.IterateExperts();
    watched += loop.watched() ? 1 : 0;
  }
  EXPECT_GT(watched, 0);
  EXPECT_LT(watched, kIterations / 10);
}

// What the program gives up at the end of a fold comes again in the next, its like where its like lay: the plan knows.
TEST_F(LearnerTest, TheNextFoldFindsItsWeightsPlacesAndSoThePlan) {
  TrainingLoop loop(device_, api_, {});
  ASSERT_TRUE(loop.Until(PlanStatus::State::kSettled));
  const std::uint64_t held = loop.held_bytes();
  for (int fold = 0; fold < 3; ++fold) {
    loop.MakeWeightsAnew();
    for (int i = 0; i < 5; ++i) {
      loop.Iterate();
      EXPECT_EQ(loop.planned(), loop.kRequests) << "fold " << fold << ", iteration " << i;
    }
  }
  EXPECT_EQ(loop.held_bytes(), held);
}

// A settled plan that knows three quarters of what the program does by now is made anew.
TEST_F(LearnerTest, APlanThatServesTooLittleIsMadeAnew) {
  TrainingLoop loop(device_, api_, {});
  ASSERT_TRUE(loop.Until(PlanStatus::State::kSettled));
  constexpr int kMore = loop.kRequests / 3;
  loop.at_the_peak = [&] { loop.Repeat(kMore); };
  loop.Iterate();
  ASSERT_EQ(loop.planned(), loop.kRequests);
  int iterations = 0;
  for (; loop.planned() < loop.kRequests + kMore && iterations < 1000; ++iterations) loop.Iterate();
  EXPECT_LT(iterations, 200);
  EXPECT_TRUE(loop.Until(PlanStatus::State::kSettled));
}

// What makes a plan serve little may be the program itself. It is watched again, but ever more rarely.
TEST_F(LearnerTest, AProgramOfWhichNoPlanServesMoreIsWatchedEverMoreRarely) {
  TrainingLoop loop(device_, api_, {});
  ASSERT_TRUE(loop.Until(PlanStatus::State::kSettled));
  int watched = 0;
  constexpr int kIterations = 3000;
  for (int i = 0; i < kIterations; ++i) {
    loop.Chance(12);
    loop.Iterate();
    watched += loop.watched() ? 1 : 0;
  }
  EXPECT_GT(watched, 0);
  EXPECT_LT(watched, kIterations / 10);
}

// A program is left alone for as long as it was watched, however long it has run before.
TEST_F(LearnerTest, TheTimeForWhichAProgramIsLeftAloneIsMeasuredFromWhenItWasWatched) {
  TrainingLoop loop(device_, api_, {});
  ASSERT_TRUE(loop.Until(PlanStatus::State::kSettled));
  for (int i = 0; i < 2000; ++i) loop.Iterate();
  int iterations = 0;
  for (; loop.status().state != PlanStatus::State::kLeftAlone && iterations < 500; ++iterations) loop.IterateExperts();
  ASSERT_EQ(loop.status().state, PlanStatus::State::kLeftAlone);
  int alone = 0;
  for (; loop.status().state == PlanStatus::State::kLeftAlone && alone < 1000; ++alone) loop.Iterate();
  EXPECT_LE(alone, iterations + 1);
  for (int i = 0; i < 100 && loop.planned() < loop.kRequests; ++i) loop.Iterate();
  EXPECT_EQ(loop.planned(), loop.kRequests);
}

// A quarter of the requests stays, as a history of metrics does, but it is small: this is an iteration nevertheless. Of
// layers that leave activations behind, which are not, none is planned.
TEST_F(LearnerTest, AnIterationMayLeaveManySmallBlocksBehind) {
  for (const bool small : {true, false}) {
    TrainingLoop loop(device_, api_, {});
    loop.at_the_peak = [&] {
      for (std::uint64_t i = 0; i < loop.kRequests / 3; ++i) loop.Keep(small ? 4096 : kMebibyte, 500 + i);
    };
    for (int i = 0; i < 30; ++i) loop.Iterate();
    EXPECT_EQ(loop.planned() > loop.kRequests / 2, small) << loop.planned();
  }
}

}  // namespace
}  // namespace stalloc::runtime
