#include "planner/stream_order.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <vector>

#include "exact.h"
#include "instance.h"
#include "orders.h"
#include "planner/lower_bound.h"
#include "planner/page_plan.h"
#include "planner/problem_check.h"
#include "planner/solve.h"
#include "planner/validate.h"
#include "problems.h"

namespace stalloc::planner {
namespace {

// Whether [begin_a, end_a) and [begin_b, end_b) meet: by looking at every tick of the line or the circle.
bool Meet(Time begin_a, Time end_a, Time begin_b, Time end_b, Time period) {
  for (Time a = begin_a; a < end_a; ++a) {
    for (Time b = begin_b; b < end_b; ++b) {
      if (period == 0 ? a == b : (a - b) % period == 0) return true;
    }
  }
  return false;
}

// The definition in model.h.
bool MayShare(const Problem& problem, std::size_t b, std::size_t c) {
  const Request& first = problem.requests[b];
  const Request& second = problem.requests[c];
  return !Meet(first.begin, problem.reusable[b * problem.streams + second.stream], second.begin,
               problem.reusable[c * problem.streams + first.stream], problem.period);
}

ProblemShape AnyShape() {
  ProblemShape shape;
  shape.cyclic = *rc::gen::arbitrary<bool>();
  shape.fixed = *rc::gen::arbitrary<bool>();
  shape.aligned = *rc::gen::arbitrary<bool>();
  shape.streams = *rc::gen::inRange(1u, 5u);
  return shape;
}

Problem WithoutOrder(Problem problem) {
  problem.streams = 0;
  problem.reusable.clear();
  return problem;
}

//  stream 0   [ 0 ]                 0: [0, 2), stream 1 may use its bytes from 4 on
//  stream 0        [ 1 ]            1: [2, 4)
//  stream 1        [ 2 ]  [ 3 ]     2: [2, 4), 3: [4, 6)
Problem FourBlocks() {
  Problem problem;
  problem.requests = {{10, 0, 2, 0}, {10, 2, 4, 0}, {10, 2, 4, 1}, {10, 4, 6, 1}};
  problem.streams = 2;
  problem.reusable = {2, 4, 4, 6, 4, 4, 6, 6};
  return problem;
}

TEST(StreamOrder, ValidatorKnowsIt) {
  const Problem problem = FourBlocks();
  EXPECT_EQ(FindViolation(problem, {{0, 0, 10, 10}, 20}), std::nullopt);
  EXPECT_EQ(FindViolation(problem, {{0, 10, 0, 20}, 30}), "request 2 overlaps request 0");
  EXPECT_EQ(FindViolation(problem, {{0, 10, 20, 0}, 30}), std::nullopt) << "by 4 the streams are in order";
  EXPECT_EQ(FindViolation(problem, {{0, 0, 10, 0}, 20}), "request 3 overlaps request 1")
      << "request 1 has taken the bytes over, and stream 1 waits for it until 6";
  EXPECT_EQ(FindViolation(WithoutOrder(problem), {{0, 10, 0, 20}, 30}), std::nullopt);
}

TEST(StreamOrder, GoesAroundTheCircle) {
  Problem problem;
  problem.period = 10;
  problem.requests = {{10, 6, 9, 0}, {10, 1, 3, 1}};
  problem.streams = 2;
  problem.reusable = {9, 12, 3, 3};  // request 0 is not reusable on stream 1 before 2 of the next turn
  EXPECT_EQ(FindViolation(problem, {{0, 0}, 10}), "request 1 overlaps request 0");
  EXPECT_EQ(Solve(problem).placement.height_bytes, 20u);
  problem.reusable = {9, 11, 3, 3};
  EXPECT_EQ(FindViolation(problem, {{0, 0}, 10}), std::nullopt);
  EXPECT_EQ(Solve(problem).placement.height_bytes, 10u);
}

TEST(StreamOrder, FindsWhatIsMalformed) {
  Problem problem = FourBlocks();
  EXPECT_EQ(FindMalformed(problem), std::nullopt);
  problem.requests[2].stream = 2;
  EXPECT_EQ(FindMalformed(problem), "request 2: is on a stream that the problem does not have");
  problem = FourBlocks();
  problem.reusable[1] = 1;
  EXPECT_EQ(FindMalformed(problem), "request 0: is reusable before it ends");
  problem = FourBlocks();
  problem.reusable[0] = 3;
  EXPECT_EQ(FindMalformed(problem), "request 0: is not reusable on its own stream when it ends");
  problem = FourBlocks();
  problem.period = 7;
  EXPECT_EQ(FindMalformed(problem), std::nullopt);
  problem.reusable[1] = 8;
  EXPECT_EQ(FindMalformed(problem), "request 0: is reusable only after it has come again");
  problem = FourBlocks();
  problem.requests[0].begin = -1;
  problem.reusable[1] = std::numeric_limits<Time>::max();
  EXPECT_EQ(FindMalformed(problem), "request 0: is reusable too late");
  problem = FourBlocks();
  problem.reusable.pop_back();
  EXPECT_EQ(FindMalformed(problem), "reusable has 7 times for 4 requests and 2 streams");
  EXPECT_NE(FindViolation(problem, {{0, 10, 20, 30}, 40}), std::nullopt);
}

TEST(StreamOrder, ValidatorEqualsTheDefinition) {
  EXPECT_TRUE(rc::check([] {
    const Problem problem = *AnyProblem({.max_requests = 5,
                                         .max_size = 8,
                                         .horizon = 8,
                                         .cyclic = *rc::gen::arbitrary<bool>(),
                                         .streams = *rc::gen::inRange(1u, 4u)});
    const std::size_t count = problem.requests.size();
    Placement placement;
    for (const Request& request : problem.requests) {
      placement.offsets.push_back(*rc::gen::inRange<Bytes>(0, 20));
      placement.height_bytes = std::max(placement.height_bytes, placement.offsets.back() + request.size_bytes);
    }
    bool valid = true;
    std::vector<Slot> slots;
    for (std::size_t b = 0; b < count; ++b) {
      const Bytes end = placement.offsets[b] + problem.requests[b].size_bytes;
      for (std::size_t c = 0; c < count; ++c) {
        const bool shares =
            placement.offsets[c] < end && placement.offsets[b] < placement.offsets[c] + problem.requests[c].size_bytes;
        if (b != c && shares && !MayShare(problem, b, c)) valid = false;
      }
      slots.push_back({Slot::Kind::kRun, placement.offsets[b], {}});
    }
    RC_ASSERT(FindViolation(problem, placement).has_value() == !valid);
    RC_ASSERT(FindSlotViolation(problem, slots).has_value() == !valid);
  }));
}

TEST(StreamOrder, PlansAreValidAndNeverWorseThanHoldingBack) {
  EXPECT_TRUE(rc::check([] {
    const Problem problem = *AnyProblem(AnyShape());
    const SolveOptions options{.effort = 0.2};
    const Solution solution = Solve(problem, options);
    RC_ASSERT(solution.error.empty());
    RC_ASSERT(FindViolation(problem, solution.placement) == std::nullopt);
    RC_ASSERT(solution.lower_bound_bytes == LowerBound(WithoutOrder(problem)));
    RC_ASSERT(Solve(problem, options).placement == solution.placement);

    const Problem held = HeldForAllStreams(problem);
    const SolveOptions quick{.effort = 0};
    // The solver counts whole units of alignment: what the topmost block leaves of its last one may differ.
    const auto units = [&](const Placement& placement) {
      return (placement.height_bytes + problem.alignment_bytes - 1) / problem.alignment_bytes;
    };
    RC_ASSERT(units(Solve(problem, quick).placement) <= units(Solve(held, quick).placement));
    RC_ASSERT(FindViolation(problem, Solve(held, quick).placement) == std::nullopt);
  }));
}

TEST(StreamOrder, TwoRequestsShareIfAndOnlyIfTheyMay) {
  EXPECT_TRUE(rc::check([] {
    ProblemShape shape = AnyShape();
    shape.min_requests = shape.max_requests = 2;
    shape.fixed = shape.aligned = false;
    const Problem problem = *AnyProblem(shape);
    const Bytes a = problem.requests[0].size_bytes;
    const Bytes b = problem.requests[1].size_bytes;
    RC_ASSERT(Solve(problem, {.effort = 0}).placement.height_bytes ==
              (MayShare(problem, 0, 1) ? std::max(a, b) : a + b));
  }));
}

TEST(StreamOrder, FindsTheBestOfAllOrdersForFewRequests) {
  EXPECT_TRUE(rc::check([] {
    ProblemShape shape = AnyShape();
    shape.min_requests = 1;
    shape.max_requests = 5;
    shape.aligned = false;
    shape.max_size = 6;
    shape.horizon = 8;
    const Problem problem = *AnyProblem(shape);
    const Solution solution = Solve(problem);
    RC_ASSERT(solution.placement.height_bytes == LowestHeight(problem));
    RC_ASSERT(!problem.fixed.empty() || solution.status == Solution::Status::kOptimal);
  }));
}

// Whatever is placed next where there is a choice: the lowest height is found, and below it nothing.
TEST(StreamOrder, ExactSearchEqualsBruteForce) {
  EXPECT_TRUE(rc::check([] {
    ProblemShape shape = AnyShape();
    shape.min_requests = 1;
    shape.max_requests = 8;
    shape.fixed = shape.aligned = false;
    shape.max_size = *rc::gen::element<Bytes>(2, 6);
    shape.horizon = *rc::gen::element<Time>(8, 16);
    const Problem problem = *AnyProblem(shape);
    const Bytes lowest = LowestHeight(problem);
    const Instance instance = MakeInstance(problem);
    ExactStrategy strategy;
    strategy.first = *rc::gen::element(ExactStrategy::First::kFewestBranches, ExactStrategy::First::kLowest,
                                       ExactStrategy::First::kPreferredOfLowest);
    strategy.spare_penalty = *rc::gen::element<std::uint64_t>(0, 4, 1000);
    strategy.preference = MakeOrder(
        instance, *rc::gen::elementOf(std::vector<OrderRule>(std::begin(kOrderRules), std::end(kOrderRules))));
    const auto never = [] { return false; };
    const ExactResult found = SearchExactly(instance, lowest, strategy, 1 << 20, never);
    RC_ASSERT(found.kind == ExactResult::Kind::kFound);
    RC_ASSERT(FindViolation(problem, MakePlacement(problem, found.offsets)) == std::nullopt);
    RC_ASSERT(MakePlacement(problem, found.offsets).height_bytes == lowest);
    RC_ASSERT(SearchExactly(instance, lowest - 1, strategy, 1 << 20, never).kind == ExactResult::Kind::kNone);
  }));
}

// A block may have to lie below another that it shares no slot with: whichever is preferred, it is waited for.
TEST(StreamOrder, ExactSearchPutsBelowWhatNeverLivesTogether) {
  Problem problem;
  problem.requests = {{5, 2, 4, 3}, {2, 5, 6, 3}, {4, 3, 4, 0}, {2, 7, 9, 1}};
  problem.streams = 4;
  problem.reusable = {10, 12, 9, 4, 15, 7, 14, 6, 4, 4, 4, 12, 13, 9, 11, 15};
  const Bytes lowest = LowestHeight(problem);
  const Instance instance = MakeInstance(problem);
  using First = ExactStrategy::First;
  for (const First first : {First::kFewestBranches, First::kLowest, First::kPreferredOfLowest}) {
    Order preference{0, 1, 2, 3};
    do {
      const auto never = [] { return false; };
      const ExactResult found = SearchExactly(instance, lowest, {first, 4, preference}, 1 << 20, never);
      EXPECT_EQ(found.kind, ExactResult::Kind::kFound);
      const ExactResult below = SearchExactly(instance, lowest - 1, {first, 4, preference}, 1 << 20, never);
      EXPECT_EQ(below.kind, ExactResult::Kind::kNone);
    } while (std::next_permutation(preference.begin(), preference.end()));
  }
}

TEST(StreamOrder, IsOfNoAccountWhereMemoryIsReusableAtOnce) {
  EXPECT_TRUE(rc::check([] {
    Problem problem = *AnyProblem(AnyShape());
    for (std::size_t i = 0; i < problem.requests.size(); ++i) {
      for (std::size_t q = 0; q < problem.streams; ++q) {
        problem.reusable[i * problem.streams + q] = problem.requests[i].end;
      }
    }
    const SolveOptions options{.effort = 0.2};
    RC_ASSERT(Solve(problem, options).placement == Solve(WithoutOrder(problem), options).placement);
  }));
}

TEST(StreamOrder, PagePlansKeepToIt) {
  EXPECT_TRUE(rc::check([] {
    PageProblem problem;
    problem.problem = *AnyProblem({.max_requests = 20,
                                   .max_size = 160,
                                   .cyclic = *rc::gen::arbitrary<bool>(),
                                   .fixed = *rc::gen::arbitrary<bool>(),
                                   .streams = *rc::gen::inRange(2u, 4u)});
    constexpr Bytes kUnit = Bytes{64} << 10;
    for (Request& request : problem.problem.requests) request.size_bytes *= kUnit;
    for (FixedBlock& block : problem.problem.fixed) {
      block.offset *= kUnit;
      block.size_bytes *= kUnit;
    }
    const PagePlan plan = PlanPages(problem, {.effort = 0.2});
    RC_ASSERT(plan.error.empty());
    RC_ASSERT(FindSlotViolation(problem.problem, plan.slots) == std::nullopt);
    RC_ASSERT(plan.page_count >= plan.lower_bound_pages);

    // What was planned without the order is an incumbent only where it happens to keep to it.
    PageProblem carefree = problem;
    carefree.problem = WithoutOrder(problem.problem);
    problem.incumbent = PlanPages(carefree, {.effort = 0.2}).slots;
    const PagePlan again = PlanPages(problem, {.effort = 0});
    RC_ASSERT(FindSlotViolation(problem.problem, again.slots) == std::nullopt);
  }));
}

}  // namespace
}  // namespace stalloc::planner
