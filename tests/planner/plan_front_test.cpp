#include "planner/plan_front.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "planner/online.h"
#include "planner/validate.h"
#include "problems.h"

namespace stalloc::planner {
namespace {

constexpr Bytes kMiB = Bytes{1} << 20;

Slot RunAt(Bytes offset) { return {Slot::Kind::kRun, offset, {}}; }
Slot PagesAt(std::vector<std::uint32_t> pages) { return {Slot::Kind::kPaged, 0, std::move(pages)}; }

PlanMerits Merits(const Problem& problem, const std::vector<Slot>& slots) {
  PageProblem pages;
  pages.problem = problem;
  return MeritsOf(pages, slots);
}

//   1 |    [b b]        b on stream 1 takes what a on stream 0 has used; c takes it from b
//   0 | [a]     [c]
TEST(PlanMerits, CountsAWaitForEveryHandoverThatIsNotOrderedYet) {
  Problem problem;
  problem.requests = {{kMiB, 0, 2, 0}, {kMiB, 2, 5, 1}, {kMiB, 5, 7, 0}};
  const std::vector<Slot> together(3, RunAt(0));
  EXPECT_EQ(Merits(problem, together).waits, 2u) << "nothing is known of the order";
  EXPECT_EQ(Merits(problem, {RunAt(0), RunAt(kMiB), RunAt(0)}).waits, 0u) << "a stream is in order with itself";
  EXPECT_EQ(Merits(problem, {RunAt(0), RunAt(kMiB - 1), RunAt(2 * kMiB)}).waits, 1u) << "one byte is enough";

  problem.streams = 2;
  problem.reusable = {2, 2, 6, 5, 7, 9};  // b's memory is free for stream 0 from time 6 on
  EXPECT_EQ(Merits(problem, together).waits, 1u) << "c begins too early";
  problem.reusable = {2, 2, 5, 5, 7, 9};
  EXPECT_EQ(Merits(problem, together).waits, 0u);
}

TEST(PlanMerits, CountsHandoversFromOneIterationToTheNext) {
  Problem problem;
  problem.period = 10;
  problem.requests = {{kMiB, 0, 2, 0}, {kMiB, 5, 7, 1}};
  EXPECT_EQ(Merits(problem, {RunAt(0), RunAt(0)}).waits, 2u) << "there and back";
  problem.streams = 2;
  problem.reusable = {2, 5, 10, 7};  // the second is free for stream 0 when the next iteration begins
  EXPECT_EQ(Merits(problem, {RunAt(0), RunAt(0)}).waits, 0u);
  problem.reusable = {2, 5, 11, 7};
  EXPECT_EQ(Merits(problem, {RunAt(0), RunAt(0)}).waits, 1u);
}

TEST(PlanMerits, CountsWaitsOnceForARequestAndAStream) {
  Problem problem;  // a request over what two others on one stream and one on a third have left
  problem.requests = {{kMiB, 0, 2, 0}, {kMiB, 0, 2, 0}, {kMiB, 0, 2, 1}, {3 * kMiB, 3, 4, 2}};
  EXPECT_EQ(Merits(problem, {RunAt(0), RunAt(kMiB), RunAt(2 * kMiB), RunAt(0)}).waits, 2u);
  EXPECT_EQ(Merits(problem, {RunAt(0), RunAt(kMiB), RunAt(2 * kMiB), PagesAt({0, 7})}).waits, 1u);
}

// Of a stream's blocks the one that is freed last is waited for: the others on it have ended by then.
TEST(PlanMerits, SaysWhoWaitsForWhom) {
  Problem problem;
  problem.requests = {{kMiB, 0, 3, 0}, {kMiB, 1, 2, 0}, {kMiB, 0, 2, 1}, {3 * kMiB, 3, 4, 2}};
  const std::vector<SlotWait> waits = WaitsOf(problem, {RunAt(0), RunAt(kMiB), RunAt(2 * kMiB), RunAt(0)});
  EXPECT_EQ(waits, (std::vector<SlotWait>{{3, 0}, {3, 2}}));
  EXPECT_EQ(WaitsOf(problem, {RunAt(kMiB), RunAt(0), RunAt(5 * kMiB), RunAt(0)}), (std::vector<SlotWait>{{3, 0}}));
}

//  MiB 0       8  9      17      18
//      [a     ]   [b     ]        |  page's edge
TEST(PlanMerits, MeasuresRoomUpToTheNextBlockAndThePagesEdge) {
  Problem problem;
  problem.requests = {{8 * kMiB, 0, 4, 0}, {8 * kMiB, 2, 6, 0}};
  EXPECT_DOUBLE_EQ(Merits(problem, {RunAt(0), RunAt(9 * kMiB)}).headroom, 1);
  EXPECT_DOUBLE_EQ(Merits(problem, {RunAt(0), RunAt(8 * kMiB)}).headroom, 0) << "b ends with its page";
  EXPECT_DOUBLE_EQ(Merits(problem, {RunAt(0), RunAt(8 * kMiB + kMiB / 2)}).headroom, 0.75) << "half of a's, all of b's";
  problem.requests[1] = {8 * kMiB, 4, 6, 0};
  EXPECT_DOUBLE_EQ(Merits(problem, {RunAt(0), RunAt(kMiB)}).headroom, 1) << "a is gone when b comes";
  problem.requests = {{3 * kMiB, 0, 4, 0}};
  EXPECT_DOUBLE_EQ(Merits(problem, {PagesAt({5, 2})}).headroom, 1) << "the last page is half empty";
}

TEST(PlanMerits, CountsMovesOnlyAgainstAnIncumbent) {
  PageProblem problem;
  problem.problem.requests = {{kMiB, 0, 4, 0}, {kMiB, 2, 6, 0}};
  const std::vector<Slot> slots = {RunAt(0), RunAt(kMiB)};
  EXPECT_EQ(MeritsOf(problem, slots).moves, 0u);
  problem.incumbent = {RunAt(0), RunAt(2 * kMiB)};
  EXPECT_EQ(MeritsOf(problem, slots).moves, 1u);
}

// Streams 0 and 1 wait for one another at random moments; memory is free for the other from the next of those on.
PageProblem AnyProblemOfTwoStreams(bool cyclic) {
  PageProblem problem;
  problem.problem = *AnyProblem({.min_requests = 1, .max_requests = 20, .max_size = 120, .cyclic = cyclic});
  std::vector<Time> moments[2];
  for (std::vector<Time>& times : moments) {
    times = *rc::gen::container<std::vector<Time>>(rc::gen::inRange<Time>(0, 60));
    std::sort(times.begin(), times.end());
  }
  problem.problem.streams = 2;
  for (Request& request : problem.problem.requests) {
    request.size_bytes *= 64 * 1024;
    request.stream = *rc::gen::inRange<std::uint32_t>(0, 2);
    for (std::uint32_t q = 0; q < 2; ++q) {
      const std::vector<Time>& times = moments[q];
      const auto next = std::lower_bound(times.begin(), times.end(), request.end);
      const Time never = cyclic ? request.begin + problem.problem.period : 100;
      const Time free = next == times.end() ? never : std::min(never, *next);
      problem.problem.reusable.push_back(q == request.stream ? request.end : free);
    }
  }
  problem.paged_from_bytes = *rc::gen::element<Bytes>(1, kPageBytes);
  problem.held_pages = *rc::gen::inRange<std::uint64_t>(0, 12);
  if (*rc::gen::arbitrary<bool>()) problem.incumbent = PlaceOnline(problem.problem);
  return problem;
}

PageProblem WithoutOrder(PageProblem problem) {
  problem.problem.streams = 0;
  problem.problem.reusable.clear();
  return problem;
}

TEST(PlanFront, OffersValidPlansNoneOfWhichIsWorseThanAnother) {
  EXPECT_TRUE(rc::check([] {
    const bool cyclic = *rc::gen::arbitrary<bool>();
    const PageProblem problem = AnyProblemOfTwoStreams(cyclic);
    const PlanFront front = SearchPlanFront(problem, {.evaluations = 80, .effort = 0, .max_choices = 12});
    RC_ASSERT(front.error.empty());
    RC_ASSERT(!front.choices.empty());
    RC_ASSERT(front.choices.size() <= 12u);
    for (const PlanChoice& choice : front.choices) {
      RC_ASSERT(FindSlotViolation(WithoutOrder(problem).problem, choice.slots) == std::nullopt);
      RC_ASSERT(choice.merits == MeritsOf(problem, choice.slots));
      RC_ASSERT(choice.merits.pages >= front.lower_bound_pages);
      // On a line the order is one that could be: later memory is not free earlier. On a circle it would have to
      // repeat.
      if (!cyclic && choice.merits.waits == 0) {
        RC_ASSERT(FindSlotViolation(problem.problem, choice.slots) == std::nullopt);
      }
      for (const PlanChoice& other : front.choices) RC_ASSERT(!Dominates(other.merits, choice.merits));
    }
  }));
}

TEST(PlanFront, IsAsGoodAsEverySolverInTheSolversOwnMerit) {
  EXPECT_TRUE(rc::check([] {
    const PageProblem problem = AnyProblemOfTwoStreams(*rc::gen::arbitrary<bool>());
    const PlanFront front = SearchPlanFront(problem, {.evaluations = 20, .effort = 0, .max_choices = 6});
    PlanMerits best = front.choices.front().merits;
    for (const PlanChoice& choice : front.choices) {
      best.pages = std::min(best.pages, choice.merits.pages);
      best.waits = std::min(best.waits, choice.merits.waits);
      best.moves = std::min(best.moves, choice.merits.moves);
      best.handles = std::min(best.handles, choice.merits.handles);
      best.headroom = std::max(best.headroom, choice.merits.headroom);
    }
    const SolveOptions quick{.effort = 0};
    PageProblem from_nothing = WithoutOrder(problem);
    from_nothing.held_pages = 0;
    RC_ASSERT(best.pages <= PlanPages(WithoutOrder(problem), quick).page_count);
    RC_ASSERT(best.pages <= PlanPages(from_nothing, quick).page_count);
    RC_ASSERT(best.waits <= MeritsOf(problem, PlanPages(problem, quick).slots).waits);
    if (!problem.incumbent.empty()) RC_ASSERT(best.moves == 0u);
    PageProblem runs = WithoutOrder(problem);
    runs.paged_from_bytes = kUnlimited;
    runs.incumbent.clear();
    RC_ASSERT(best.handles <= MeritsOf(problem, PlanPages(runs, quick).slots).handles);
    for (Request& request : runs.problem.requests) request.size_bytes += (request.size_bytes + 7) / 8;
    RC_ASSERT(best.headroom >= MeritsOf(problem, PlanPages(runs, quick).slots).headroom);
  }));
}

TEST(PlanFront, IsTheSameEveryTime) {
  PageProblem problem;
  for (Time i = 0; i < 40; ++i) {
    problem.problem.requests.push_back({Bytes(1 + i * 7 % 11) * kMiB, i, i + 5 + i % 7, std::uint32_t(i % 2)});
  }
  problem.incumbent = PlaceOnline(problem.problem);
  problem.held_pages = MeritsOf(problem, problem.incumbent).pages;
  const PlanFront a = SearchPlanFront(problem, {.evaluations = 200});
  const PlanFront b = SearchPlanFront(problem, {.evaluations = 200});
  ASSERT_EQ(a.choices.size(), b.choices.size());
  for (std::size_t k = 0; k < a.choices.size(); ++k) EXPECT_EQ(a.choices[k].slots, b.choices[k].slots);
  EXPECT_GE(a.choices.size(), 10u) << "there is much to choose from here";
}

TEST(PlanFront, StopsInTime) {
  std::stop_source stop;
  stop.request_stop();
  PageProblem problem;
  problem.problem.requests = {{kMiB, 0, 4, 0}, {kMiB, 2, 6, 0}};
  const PlanFront front = SearchPlanFront(problem, {.stop = stop.get_token()});
  EXPECT_EQ(front.evaluations, 0u);
  EXPECT_FALSE(front.choices.empty()) << "the solvers' plans are there anyway";
}

TEST(PlanFront, RefusesMalformedProblems) {
  PageProblem problem;
  problem.problem.requests = {{0, 0, 4, 0}};
  EXPECT_EQ(SearchPlanFront(problem).error, "request 0: size is zero");
  problem.problem.requests = {{1, 0, 4, 0}};
  problem.incumbent = {RunAt(0), RunAt(1)};
  EXPECT_EQ(SearchPlanFront(problem).error, "incumbent has another number of slots than there are requests");
}

TEST(PlanFront, OffersOneEmptyPlanWhereNothingIsRequested) {
  const PlanFront front = SearchPlanFront({});
  ASSERT_EQ(front.choices.size(), 1u);
  EXPECT_TRUE(front.choices[0].slots.empty());
}

//  offset 0     3   5       9
//         [x   ]                  x, y, then z once x is gone. An allocator that knew would have put y above z.
//               [y ][z     ]
TEST(PlaceOnline, KnowsNothingOfTheFuture) {
  Problem problem;
  problem.requests = {{3, 0, 2, 0}, {2, 1, 4, 0}, {4, 2, 4, 0}};
  EXPECT_EQ(PlaceOnline(problem), (std::vector<Slot>{RunAt(0), RunAt(3), RunAt(5)}));
  problem.requests.push_back({1, 3, 4, 0});
  EXPECT_EQ(PlaceOnline(problem)[3], RunAt(0)) << "the gap that x has left";
}

TEST(ChooseByPressure, TakesFewHandlesWhileThereIsRoomAndFewPagesWhenThereIsNot) {
  PlanFront front;
  EXPECT_EQ(ChooseByPressure(front, 100), nullptr);
  front.choices = {{{.pages = 10, .handles = 7}, {}, "small"},
                   {{.pages = 12, .handles = 3, .moves = 5}, {}, "between"},
                   {{.pages = 15, .handles = 3, .moves = 1}, {}, "still"},
                   {{.pages = 20, .handles = 0}, {}, "cheap"}};
  const auto chosen = [&](std::uint64_t available) { return ChooseByPressure(front, available)->method; };
  EXPECT_EQ(chosen(1000), "cheap");
  EXPECT_EQ(chosen(19), "still") << "equal handles: fewer moves";
  EXPECT_EQ(chosen(14), "between");
  EXPECT_EQ(chosen(10), "small");
  EXPECT_EQ(chosen(3), "small") << "none is small enough";
}

}  // namespace
}  // namespace stalloc::planner
