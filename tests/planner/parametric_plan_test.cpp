#include "planner/parametric_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "planner/size_laws.h"
#include "planner/validate.h"
#include "problems.h"

namespace stalloc::planner {
namespace {

// Sizes of one iteration at length x: the length's own, and what commonly follows from it.
std::vector<Bytes> SizesAt(Bytes x) {
  return {
      512,                                // constant
      8 * x,                              // the parameter
      x / 2 * 768,                        // proportional (x is even)
      24 * x + 4096,                      // affine
      std::min<Bytes>(3000 * x, 600000),  // a workspace with a largest size
      std::max<Bytes>(100 * x, 12000),    // one with a smallest size
      (5 * x + 511) / 512 * 512,          // rounded up
      100000 - 10 * x,                    // what is left of something
  };
}

TEST(SizeLaws, FindsWhatSizesFollowFrom) {
  const SizeLaws laws =
      LearnSizes({SizesAt(100), SizesAt(150), SizesAt(180), SizesAt(260), SizesAt(360), SizesAt(120)});
  ASSERT_EQ(laws.parameters, std::vector<std::size_t>{1});
  EXPECT_EQ(laws.Guesses(), 0u);
  EXPECT_EQ(laws.laws[0].kind, SizeLaw::Kind::kConstant);
  for (const Bytes x : {20, 110, 200, 300, 1000}) EXPECT_EQ(laws.Predict({8 * x}), SizesAt(x)) << x;
}

TEST(SizeLaws, GuessesLargeEnoughForAllExamples) {
  EXPECT_TRUE(rc::check([] {
    const auto count = *rc::gen::inRange<std::size_t>(1, 6);
    std::vector<std::vector<Bytes>> examples;
    for (int k = *rc::gen::inRange(1, 6); k > 0; --k) {
      examples.push_back(*rc::gen::container<std::vector<Bytes>>(count, rc::gen::inRange<Bytes>(1, 100000)));
    }
    const SizeLaws laws = LearnSizes(examples);
    RC_ASSERT(laws.laws.size() == count);
    for (const std::vector<Bytes>& example : examples) {
      std::vector<Bytes> values;
      for (const std::size_t i : laws.parameters) values.push_back(example[i]);
      const std::vector<Bytes> sizes = laws.Predict(values);
      for (std::size_t i = 0; i < count; ++i) {
        RC_ASSERT(sizes[i] >= example[i]);
        if (laws.laws[i].kind != SizeLaw::Kind::kGuess) RC_ASSERT(sizes[i] == example[i]);
      }
    }
  }));
}

TEST(SizeLaws, TakesASecondParameterForWhatTheFirstDoesNotExplain) {
  std::vector<std::vector<Bytes>> examples;
  for (const auto& [x, y] : {std::pair<Bytes, Bytes>{10, 7}, {20, 3}, {30, 9}, {40, 2}}) {
    examples.push_back({y, x, 4 * y + 1, 2 * x, 3 * x + 5, y * 100});
  }
  const SizeLaws laws = LearnSizes(examples);
  EXPECT_EQ(laws.parameters, (std::vector<std::size_t>{0, 1})) << "by rising index, whichever explains more";
  EXPECT_EQ(laws.Predict({5, 50}), (std::vector<Bytes>{5, 50, 21, 100, 155, 500}));
}

TEST(ParametricPlan, PlacesAnyPredictionAndItsExamplesAsWellAsTheyWere) {
  EXPECT_TRUE(rc::check([] {
    ProblemShape shape{.min_requests = 1, .max_requests = 20};
    shape.cyclic = *rc::gen::arbitrary<bool>();
    shape.fixed = *rc::gen::arbitrary<bool>();
    shape.aligned = *rc::gen::arbitrary<bool>();
    shape.streams = *rc::gen::inRange(0u, 4u);
    const Problem problem = *AnyProblem(shape);
    const auto sizes_at = [&](Bytes x) {
      std::vector<Bytes> sizes;
      for (const Request& request : problem.requests) sizes.push_back(request.size_bytes * x);
      return sizes;
    };
    const SolveOptions options{.effort = 0.1};
    ParametricPlan parametric(problem, {sizes_at(3), sizes_at(5), sizes_at(8)}, options);
    RC_ASSERT(parametric.laws().parameters.size() == 1u);
    const Bytes first = problem.requests[parametric.laws().parameters.front()].size_bytes;
    for (const Bytes x : {Bytes{5}, *rc::gen::inRange<Bytes>(1, 20)}) {
      const PredictedPlan plan = parametric.Place({first * x});
      RC_ASSERT(plan.sizes == sizes_at(x));
      Problem sized = problem;
      for (std::size_t i = 0; i < sized.requests.size(); ++i) sized.requests[i].size_bytes = plan.sizes[i];
      RC_ASSERT(FindViolation(sized, plan.placement) == std::nullopt);
      const Bytes unit = problem.alignment_bytes;
      if (x == 5 && shape.streams == 0) {
        RC_ASSERT(plan.placement.height_bytes <=
                  (Solve(sized, options).placement.height_bytes + unit - 1) / unit * unit);
      }
    }
  }));
}

TEST(ParametricPlan, PlacesNothingWhereSizesCannotBe) {
  Problem problem;
  problem.requests = {{1, 0, 2, 0}, {1, 1, 3, 0}};
  ParametricPlan parametric(problem, {{10, 20}, {20, 40}}, {});
  EXPECT_EQ(parametric.Place({30}).placement.height_bytes, 90u);
  EXPECT_TRUE(parametric.Place({kUnlimited}).placement.offsets.empty());
}

}  // namespace
}  // namespace stalloc::planner
