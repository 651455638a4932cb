#include "planner/solve.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "planner/lower_bound.h"
#include "planner/validate.h"
#include "problems.h"

namespace stalloc::planner {
namespace {

void CheckProperties(const Problem& problem) {
  const SolveOptions options{.effort = 0.3};
  const Solution solution = Solve(problem, options);
  RC_ASSERT(solution.error.empty());
  RC_ASSERT(FindViolation(problem, solution.placement) == std::nullopt);
  RC_ASSERT(solution.lower_bound_bytes == LowerBound(problem));
  RC_ASSERT(solution.placement.height_bytes >= solution.lower_bound_bytes);
  RC_ASSERT(Solve(problem, options).placement == solution.placement);
}

TEST(Solve, IsValidAndNeverBelowTheBound) {
  EXPECT_TRUE(rc::check("line", [] { CheckProperties(*AnyProblem({})); }));
  EXPECT_TRUE(rc::check("circle", [] { CheckProperties(*AnyProblem({.cyclic = true})); }));
  EXPECT_TRUE(rc::check("fixed blocks", [] { CheckProperties(*AnyProblem({.fixed = true, .aligned = true})); }));
  EXPECT_TRUE(
      rc::check("everything", [] { CheckProperties(*AnyProblem({.cyclic = true, .fixed = true, .aligned = true})); }));
}

TEST(Solve, EqualsBruteForce) {
  EXPECT_TRUE(rc::check("up to 8 requests", [] {
    const Problem problem =
        *AnyProblem({.max_requests = 8, .max_size = 6, .horizon = 6, .cyclic = *rc::gen::arbitrary<bool>()});
    RC_PRE(!problem.requests.empty());
    const Solution solution = Solve(problem);
    RC_ASSERT(solution.status == Solution::Status::kOptimal);
    RC_ASSERT(solution.placement.height_bytes == LowestHeight(problem));
  }));
  EXPECT_TRUE(rc::check("fixed blocks", [] {
    const Problem problem = *AnyProblem(
        {.max_requests = 6, .max_size = 8, .horizon = 6, .cyclic = *rc::gen::arbitrary<bool>(), .fixed = true});
    RC_PRE(!problem.requests.empty());
    const Bytes best = LowestHeight(problem);
    RC_ASSERT(LowerBound(problem) <= best);
    RC_ASSERT(Solve(problem).placement.height_bytes >= best);
  }));
}

TEST(Solve, DoesNotCareWhereTheCircleIsCut) {
  EXPECT_TRUE(rc::check([] {
    const Problem problem = *AnyProblem({.max_requests = 7, .max_size = 6, .horizon = 7, .cyclic = true});
    const Time shift = *rc::gen::inRange<Time>(-20, 20);
    Problem shifted = problem;
    for (Request& request : shifted.requests) {
      request.begin += shift;
      request.end += shift;
    }
    const Solution solution = Solve(problem);
    const Solution again = Solve(shifted);
    RC_ASSERT(again.lower_bound_bytes == solution.lower_bound_bytes);
    RC_ASSERT(again.placement.height_bytes == solution.placement.height_bytes);
    RC_ASSERT(FindViolation(problem, again.placement) == std::nullopt);
  }));
}

TEST(Solve, GivesTheSamePlanForTheSameSeedAndThreads) {
  EXPECT_TRUE(rc::check([] {
    const Problem problem = *AnyProblem({.max_requests = 25});
    const SolveOptions options{.seed = 7, .threads = 2, .effort = 0.2};
    RC_ASSERT(Solve(problem, options).placement == Solve(problem, options).placement);
  }));
}

TEST(Solve, StopsOnRequest) {
  Problem problem;
  for (int i = 0; i < 2000; ++i)
    problem.requests.push_back({Bytes(i * 7919 % 1000 + 1), i * 31 % 977, i * 31 % 977 + 200, 0});
  std::stop_source source;
  source.request_stop();
  EXPECT_EQ(Solve(problem, {.stop = source.get_token()}).error, "");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(Solve(problem, {.time_limit = std::chrono::milliseconds(200), .threads = 2}).error, "");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << "not a benchmark: an endless search";
}

TEST(Solve, SaysWhenNothingFits) {
  Problem problem;
  problem.requests = {{10, 0, 4, 0}, {20, 2, 6, 0}};
  problem.capacity_bytes = 29;
  const Solution solution = Solve(problem);
  EXPECT_EQ(solution.status, Solution::Status::kInfeasible);
  EXPECT_TRUE(solution.proven);
  EXPECT_EQ(solution.placement.height_bytes, 30u);
}

TEST(Solve, RefusesMalformedProblems) {
  Problem problem;
  problem.requests = {{10, 4, 4, 0}};
  const Solution solution = Solve(problem);
  EXPECT_EQ(solution.status, Solution::Status::kMalformed);
  EXPECT_EQ(solution.error, "request 0: ends before it begins");
}

TEST(Solve, EmptyProblemHasNoHeight) {
  const Solution solution = Solve({});
  EXPECT_EQ(solution.status, Solution::Status::kOptimal);
  EXPECT_EQ(solution.placement.height_bytes, 0u);
}

}  // namespace
}  // namespace stalloc::planner
