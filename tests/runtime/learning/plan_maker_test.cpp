// What becomes of a kept plan.
#include <gtest/gtest.h>

#include "runtime/learning/plan_maker.h"

namespace stalloc::runtime {
namespace {

planner::PlannedRequest Request(std::uint64_t call_site, std::uint64_t size_bytes) {
  planner::PlannedRequest request;
  request.call_site = call_site;
  request.size_bytes = size_bytes;
  return request;
}

planner::PlannedRequest At(planner::PlannedRequest request, std::uint64_t offset_bytes) {
  request.slot.kind = planner::Slot::Kind::kRun;
  request.slot.offset_bytes = offset_bytes;
  return request;
}

//  page  0  [1: fixed]  2 3  4      a and b, two pages each, live together for a while and were both served on 2 and 3.
//                      [a a]        There is room for all of it on five pages: for b on 0 and 4, as a list.
//                      [b b]
PlanningTask TwoInOnePlace(std::uint64_t held_pages) {
  PlanningTask task;
  task.pattern.period = 8;
  task.pattern.requests.resize(2);
  task.pattern.requests[0].size_bytes = task.pattern.requests[1].size_bytes = 2 * kPageBytes;
  task.pattern.requests[0].end = 4;
  task.pattern.requests[1].begin = 2;
  task.pattern.requests[1].end = 6;
  task.pages.problem = ProblemOf(task.pattern, &task.members);
  task.pages.problem.fixed = {{kPageBytes, kPageBytes}};
  task.pages.held_pages = held_pages;
  const planner::Slot served = At(Request(0, 0), 2 * kPageBytes).slot;
  task.pages.incumbent = {served, served};
  task.all_observed = true;
  return task;
}

constexpr int kDeadlineMs = 1000;

TEST(MakePlan, WhatWasServedInItsOwnWayGetsAPlanWhereTheHeldPagesDo) {
  const MadePlan made = MakePlan(TwoInOnePlace(5), kDeadlineMs);
  EXPECT_NE(made.method, "as served");
  ASSERT_EQ(made.in_force->slots.size(), 2u);
  EXPECT_NE(made.in_force->slots[0].begin, made.in_force->slots[1].begin);
}

TEST(MakePlan, ItStaysWhereItWasServedWhereAPlanWouldHoldMore) {
  const MadePlan made = MakePlan(TwoInOnePlace(4), kDeadlineMs);
  EXPECT_EQ(made.method, "as served");
  for (const BlockPlace& slot : made.in_force->slots) EXPECT_EQ(slot.begin, 2 * kPageGranules);
}

// Not everything was seen: nothing is known to fit what is held.
TEST(MakePlan, WhatWasNotSeenWholeGetsAPlanWhateverItHolds) {
  PlanningTask task = TwoInOnePlace(4);
  task.all_observed = false;
  EXPECT_NE(MakePlan(task, kDeadlineMs).method, "as served");
}

// Two losses were alive when the plan was made, beside a weight; the iteration makes another.
TEST(PlanFrom, WhatLivesOnTakesTurnsInThePlacesOfItsLike) {
  constexpr std::uint64_t kLoss = 7;
  planner::Plan kept;
  kept.period = 4;
  kept.persistent = {At(Request(kLoss, 100), 0), At(Request(8, 4096), 512), At(Request(kLoss, 100), 4608),
                     At(Request(kLoss, 2000), 5120)};
  kept.iteration = {At(Request(9, 512), 8192), Request(kLoss, 100), Request(10, 0)};
  const auto plan = PlanFrom(kept, KeptBy::kThisConfiguration);
  ASSERT_EQ(plan->rooms.size(), 3u);
  EXPECT_TRUE(plan->rooms[0].empty()) << "it has a slot";
  ASSERT_EQ(plan->rooms[1].size(), 2u);
  EXPECT_EQ(plan->rooms[1][0].begin, 0u);
  EXPECT_EQ(plan->rooms[1][0].length(), 1u);
  EXPECT_EQ(plan->rooms[1][1].begin, 9u);
  EXPECT_TRUE(plan->rooms[2].empty()) << "its size differs from iteration to iteration";
}

// A weight of a page and two blocks of 500 that take turns: 501 pages live at the peak.
planner::Plan InTurns(std::uint64_t page_count) {
  planner::Plan plan;
  plan.period = 4;
  plan.persistent = {At(Request(8, kPageBytes), 0)};
  plan.iteration = {At(Request(9, 500 * kPageBytes), kPageBytes), At(Request(10, 500 * kPageBytes), 501 * kPageBytes)};
  plan.iteration[0].end = 1;
  plan.iteration[1].begin = 2;
  plan.iteration[1].end = 3;
  plan.page_count = page_count;
  return plan;
}

TEST(ExcessOf, APlanMayHaveTheLivePagesATwoHundredthAndOneMore) {
  EXPECT_EQ(ExcessOf(InTurns(501)), "");
  EXPECT_EQ(ExcessOf(InTurns(501 + 2 + 1)), "");
  EXPECT_EQ(ExcessOf(InTurns(501 + 2 + 2)), "it has 505 pages where 501 live at the peak");
  EXPECT_EQ(ExcessOf(InTurns(1001)), "it has 1001 pages where 501 live at the peak");
}

TEST(ExcessOf, BlocksThatLiveTogetherCountTogether) {
  planner::Plan plan = InTurns(1001);
  plan.iteration[0].end = 3;
  EXPECT_EQ(ExcessOf(plan), "");
}

TEST(ExcessOf, SaysWhichLifetimeCannotBe) {
  planner::Plan plan = InTurns(501);
  plan.iteration[1].end = 2;
  EXPECT_EQ(ExcessOf(plan), "request 1: ends before it begins");
}

}  // namespace
}  // namespace stalloc::runtime
