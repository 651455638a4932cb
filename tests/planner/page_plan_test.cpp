#include "planner/page_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <tuple>

#include "planner/lower_bound.h"
#include "planner/plan_front.h"
#include "planner/validate.h"
#include "problems.h"

namespace stalloc::planner {
namespace {

constexpr Bytes kMiB = Bytes{1} << 20;

Slot RunAt(Bytes offset) { return {Slot::Kind::kRun, offset, {}}; }
Slot PagesAt(std::vector<std::uint32_t> pages) { return {Slot::Kind::kPaged, 0, std::move(pages)}; }

// Requests of up to five pages, in whole units of 64 KiB.
PageProblem AnyPageProblem(bool cyclic, bool whole_pages) {
  PageProblem problem;
  problem.problem = *AnyProblem({.max_requests = 25, .max_size = 160, .cyclic = cyclic, .fixed = !whole_pages});
  const auto scaled = [&](Bytes units) { return whole_pages ? (units + 31) / 32 * kPageBytes : units * 64 * 1024; };
  for (Request& request : problem.problem.requests) request.size_bytes = scaled(request.size_bytes);
  for (FixedBlock& block : problem.problem.fixed) {
    block.offset *= 64 * 1024;
    block.size_bytes *= 64 * 1024;
  }
  problem.paged_from_bytes = *rc::gen::element<Bytes>(1, kPageBytes, 2 * kPageBytes);
  problem.held_pages = *rc::gen::inRange<std::uint64_t>(0, 20);
  return problem;
}

// Pages that are held anyway count for nothing.
std::uint64_t PagesToHold(const PageProblem& problem, std::uint64_t pages) {
  return std::max(pages, problem.held_pages);
}

auto Merit(const PageProblem& problem, const PagePlan& plan) {
  return std::tuple(PagesToHold(problem, plan.page_count), plan.handles_to_map, plan.changes);
}

TEST(SlotValidator, CountsBytesWithinPages) {
  Problem problem;
  problem.requests = {{3 * kMiB, 0, 2, 0}, {kMiB, 1, 3, 0}};
  EXPECT_EQ(FindSlotViolation(problem, {PagesAt({4, 2}), RunAt(5 * kMiB)}), std::nullopt)
      << "the rest of page 2 is free";
  EXPECT_EQ(FindSlotViolation(problem, {PagesAt({4, 2}), RunAt(5 * kMiB - 1)}), "request 1 overlaps request 0");
  EXPECT_EQ(FindSlotViolation(problem, {PagesAt({4, 2}), {}}), std::nullopt) << "no slot, nothing owned";
  EXPECT_NE(FindSlotViolation(problem, {PagesAt({4}), {}}), std::nullopt) << "too few pages";
  EXPECT_NE(FindSlotViolation(problem, {PagesAt({4, 2, 1}), {}}), std::nullopt) << "too many pages";
  EXPECT_NE(FindSlotViolation(problem, {PagesAt({4, 4}), {}}), std::nullopt) << "the same page twice";
  EXPECT_NE(FindSlotViolation(problem, {RunAt(0)}), std::nullopt) << "too few slots";
  const Slot within{Slot::Kind::kPaged, kMiB, {2, 4}};
  EXPECT_EQ(FindSlotViolation(problem, {within, RunAt(4 * kMiB)}), std::nullopt) << "the start of page 2 is free";
  EXPECT_EQ(FindSlotViolation(problem, {within, RunAt(9 * kMiB)}), "request 1 overlaps request 0");
  EXPECT_EQ(FindSlotViolation(problem, {{Slot::Kind::kPaged, kPageBytes, {2, 4}}, {}}),
            "request 0 begins behind its first page");
  problem.fixed = {{9 * kMiB, 10}};
  EXPECT_EQ(FindSlotViolation(problem, {PagesAt({4, 2}), {}}), "request 0 overlaps fixed block 0");
  EXPECT_EQ(FindSlotViolation(problem, {PagesAt({3, 4}), {}}), std::nullopt);
}

//  page 0   1   2   3   4
//       [a a] F [ b b ]        a dies, then c needs three pages at once: no three in a row below page 5, but 0, 1
//       and 3.
TEST(PagePlan, GivesPagesWhereNoRunFits) {
  PageProblem problem;
  problem.problem.fixed = {{2 * kPageBytes, kPageBytes}};
  problem.problem.requests = {{2 * kPageBytes, 0, 4, 0}, {2 * kPageBytes, 2, 6, 0}, {3 * kPageBytes, 6, 9, 0}};
  problem.held_pages = 5;
  const PagePlan plan = PlanPages(problem);
  ASSERT_EQ(plan.error, "");
  EXPECT_EQ(plan.page_count, 5u);
  EXPECT_EQ(plan.lower_bound_pages, 5u);
  EXPECT_EQ(plan.status, Solution::Status::kOptimal);
  EXPECT_EQ(plan.contiguous_pages, 6u);
  EXPECT_EQ(plan.handles_to_map, 3u);
  EXPECT_EQ(plan.slots[2].kind, Slot::Kind::kPaged);

  problem.most_handles = 2;
  const PagePlan of_runs = PlanPages(problem);
  EXPECT_EQ(of_runs.page_count, 6u) << "rather a page more than three handles";
  EXPECT_EQ(of_runs.handles_to_map, 1u);
}

TEST(PagePlan, KeepsAnIncumbentThatIsAsGood) {
  PageProblem problem;
  problem.problem.requests = {{2 * kPageBytes, 0, 4, 0}, {2 * kPageBytes, 2, 6, 0}};
  problem.held_pages = 4;
  problem.incumbent = {RunAt(2 * kPageBytes), PagesAt({1, 0})};
  const PagePlan plan = PlanPages(problem);
  EXPECT_EQ(plan.slots, problem.incumbent);
  EXPECT_EQ(plan.changes, 0u);
  EXPECT_EQ(plan.handles_to_map, 0u);
  EXPECT_EQ(plan.contiguous_pages, 0u) << "nothing could be better: no time is spent on a search";
}

//  page 0 1 2 3 4      before: [ a a | b b | . ]     now: [ a a | F . | b ]
TEST(PagePlan, MovesWhatIsInTheWayOfAFixedBlockAndNothingElse) {
  PageProblem problem;
  problem.problem.requests = {{2 * kPageBytes, 0, 4, 0}, {kPageBytes, 0, 4, 0}, {kPageBytes, 2, 6, 0}};
  problem.problem.fixed = {{2 * kPageBytes + kMiB, 512}};
  problem.held_pages = 5;
  problem.incumbent = {PagesAt({1, 0}), RunAt(2 * kPageBytes), RunAt(3 * kPageBytes)};
  const PagePlan plan = PlanPages(problem);
  EXPECT_EQ(plan.slots[0], problem.incumbent[0]);
  EXPECT_EQ(plan.slots[1], RunAt(4 * kPageBytes));
  EXPECT_EQ(plan.slots[2], problem.incumbent[2]);
  EXPECT_EQ(plan.method, "repaired incumbent");
  EXPECT_EQ(plan.handles_to_map, 0u);
  EXPECT_EQ(plan.contiguous_pages, 0u) << "it maps nothing: no time is spent on a search";
}

//  page 0    1    2
//       [ a a | a b | b b ]
TEST(PagePlan, KeepsAnIncumbentThatBeginsWithinAPage) {
  PageProblem problem;
  problem.problem.requests = {{3 * kMiB, 0, 4, 0}, {3 * kMiB, 2, 6, 0}};
  problem.held_pages = 3;
  problem.incumbent = {PagesAt({0, 1}), {Slot::Kind::kPaged, kMiB, {1, 2}}};
  const PagePlan plan = PlanPages(problem);
  EXPECT_EQ(plan.slots, problem.incumbent);
  EXPECT_EQ(plan.page_count, 3u);
  EXPECT_EQ(plan.height_bytes, 6 * kMiB);
  EXPECT_EQ(plan.handles_to_map, 0u);
}

//  page 0 F 2 F 4 F 6 F 8 9 10 11    five pages in a row there are not; for the many of two pages there are, at 8
TEST(PagePlan, PutsAsFewRequestsOnPagesAsWillDo) {
  PageProblem problem;
  for (const Bytes page : {1, 3, 5, 7}) problem.problem.fixed.push_back({page * kPageBytes, kPageBytes});
  problem.problem.requests = {{5 * kPageBytes, 0, 400, 0}, {kPageBytes, 0, 400, 0}};
  for (Time t = 0; t < 400; ++t) problem.problem.requests.push_back({2 * kPageBytes, t, t + 1, 0});
  problem.held_pages = 12;
  const PagePlan plan = PlanPages(problem);
  EXPECT_EQ(plan.page_count, 12u);
  EXPECT_LE(plan.handles_to_map, 5u) << "not two for each of the four hundred";
}

TEST(PagePlan, SharesPagesAmongSmallRequests) {
  PageProblem problem;
  for (int i = 0; i < 32; ++i) problem.problem.requests.push_back({64 * 1024, i, i + 40, 0});
  const PagePlan plan = PlanPages(problem);
  EXPECT_EQ(plan.page_count, 1u);
  EXPECT_EQ(plan.handles_to_map, 1u) << "the page itself is not held yet";
}

// Blocks of many sizes: the first greedy pass alone takes longer than the limit.
TEST(PagePlan, SaysWhetherTheTimeLimitEndedTheSearch) {
  PageProblem problem;
  for (int i = 0; i < 400; ++i)
    problem.problem.requests.push_back(
        {(1 + static_cast<Bytes>(i * 7919 % 97)) * 64 * 1024, i, i + 5 + i * 31 % 60, 0});
  SolveOptions options;
  options.time_limit = std::chrono::nanoseconds(1);
  EXPECT_TRUE(PlanPages(problem, options).cut_short);
  EXPECT_FALSE(PlanPages(problem, {.effort = 0}).cut_short);
  problem.problem.requests.resize(1);
  options.time_limit = std::chrono::minutes(1);
  EXPECT_FALSE(PlanPages(problem, options).cut_short);
}

TEST(PagePlan, RefusesMalformedProblems) {
  PageProblem problem;
  problem.problem.requests = {{0, 0, 4, 0}};
  EXPECT_EQ(PlanPages(problem).error, "request 0: size is zero");
  problem.problem.requests = {{1, 0, 4, 0}};
  problem.incumbent = {RunAt(0), RunAt(1)};
  EXPECT_EQ(PlanPages(problem).status, Solution::Status::kMalformed);
}

TEST(PagePlan, IsValidAndNeverWorseThanTheIncumbent) {
  EXPECT_TRUE(rc::check([] {
    PageProblem problem = AnyPageProblem(*rc::gen::arbitrary<bool>(), false);
    const PagePlan plan = PlanPages(problem);
    RC_ASSERT(plan.error.empty());
    RC_ASSERT(FindSlotViolation(problem.problem, plan.slots) == std::nullopt);
    RC_ASSERT(plan.page_count >= plan.lower_bound_pages);
    const std::uint64_t pages = PagesToHold(problem, plan.page_count);
    RC_ASSERT(pages <= PagesToHold(problem, plan.contiguous_pages));
    RC_ASSERT(pages <= PagesToHold(problem, plan.paged_pages));
    RC_ASSERT(PlanPages(problem).slots == plan.slots);

    problem.incumbent = plan.slots;
    const PagePlan again = PlanPages(problem, {.seed = 99, .effort = 0});
    RC_ASSERT(PagesToHold(problem, again.page_count) <= pages);
    const std::tuple kept(pages, MeritsOf(problem, problem.incumbent).handles, std::uint64_t{0});
    RC_ASSERT(Merit(problem, again) <= kept);
  }));
}

TEST(PagePlan, ReachesTheColouringsOptimumOnALine) {
  EXPECT_TRUE(rc::check([] {
    PageProblem problem = AnyPageProblem(false, true);
    problem.paged_from_bytes = 1;
    const PagePlan plan = PlanPages(problem);
    RC_ASSERT(plan.page_count == PeakLive(problem.problem) / kPageBytes);
    RC_ASSERT(plan.status == Solution::Status::kOptimal);
  }));
}

}  // namespace
}  // namespace stalloc::planner
