#include "planner/solve.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <numeric>

#include "planner/lower_bound.h"
#include "planner/validate.h"
#include "problems.h"

namespace stalloc::planner {
namespace {

// The lowest height there is: every order of the requests, each put at the lowest position where it fits. Some optimal
// placement is a fixed point of pushing blocks down, and the order of its offsets finds it.
Bytes BruteForceHeight(const Problem& problem) {
  std::vector<std::size_t> order(problem.requests.size());
  std::iota(order.begin(), order.end(), 0);
  Bytes best = kUnlimited;
  do {
    Problem placed = problem;  // requests placed so far become requests of a growing problem
    placed.requests.clear();
    Placement placement;
    for (const std::size_t i : order) {
      placed.requests.push_back(problem.requests[i]);
      placement.offsets.push_back(0);
      Bytes& offset = placement.offsets.back();
      for (;; offset += problem.alignment_bytes) {
        const Bytes end = offset + problem.requests[i].size_bytes;
        const Bytes before = placement.height_bytes;
        placement.height_bytes = std::max(before, end);
        if (placement.height_bytes >= best || FindViolation(placed, placement) == std::nullopt) break;
        placement.height_bytes = before;
      }
      if (placement.height_bytes >= best) break;
    }
    best = std::min(best, placement.height_bytes);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

void CheckProperties(const Problem& problem) {
  const Solution solution = Solve(problem);
  RC_ASSERT(solution.error.empty());
  RC_ASSERT(FindViolation(problem, solution.placement) == std::nullopt);
  RC_ASSERT(solution.lower_bound_bytes == LowerBound(problem));
  RC_ASSERT(solution.placement.height_bytes >= solution.lower_bound_bytes);
  RC_ASSERT(Solve(problem).placement == solution.placement);
}

TEST(Solve, IsValidAndNeverBelowTheBound) {
  EXPECT_TRUE(rc::check("line", [] { CheckProperties(*AnyProblem({})); }));
  EXPECT_TRUE(rc::check("circle", [] { CheckProperties(*AnyProblem({.cyclic = true})); }));
  EXPECT_TRUE(rc::check("fixed blocks", [] { CheckProperties(*AnyProblem({.fixed = true, .aligned = true})); }));
  EXPECT_TRUE(
      rc::check("everything", [] { CheckProperties(*AnyProblem({.cyclic = true, .fixed = true, .aligned = true})); }));
}

TEST(Solve, NeverBeatsBruteForce) {
  EXPECT_TRUE(rc::check("up to 6 requests", [] {
    const Problem problem = *AnyProblem(
        {.max_requests = 6, .max_size = 8, .horizon = 6, .cyclic = *rc::gen::arbitrary<bool>(), .fixed = true});
    RC_PRE(!problem.requests.empty());
    const Bytes best = BruteForceHeight(problem);
    RC_ASSERT(LowerBound(problem) <= best);
    RC_ASSERT(Solve(problem).placement.height_bytes >= best);
  }));
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
