// Learner: what becomes of a plan that does not do well.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace stalloc::runtime
