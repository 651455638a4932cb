#include "runtime/learning/plan_content.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace stalloc::runtime {
namespace {

using planner::Plan;
using planner::PlannedRequest;

constexpr planner::Bytes kMiB = planner::Bytes{1} << 20;

PlannedRequest Request(std::uint64_t call_site, planner::Bytes size_bytes, planner::Time begin, planner::Time end) {
  PlannedRequest request;
  request.call_site = call_site;
  request.size_bytes = size_bytes;
  request.begin = begin;
  request.end = end;
  return request;
}

// Twelve requests, each freed four events later, above two weights.
Plan Example() {
  Plan plan;
  plan.period = 24;
  for (int i = 0; i < 12; ++i) {
    const auto k = static_cast<std::uint64_t>(i);
    plan.iteration.push_back(Request(100 + k % 5, (1 + k % 3) * kMiB, 2 * i, 2 * i + 5));
  }
  plan.persistent = {Request(1, 40 * kMiB, 0, 0), Request(2, 30 * kMiB, 0, 0)};
  return plan;
}

// The same iteration as the learner finds it that looks `by` requests later.
Plan Turned(Plan plan, std::size_t by) {
  const planner::Time start = plan.iteration[by].begin;
  std::rotate(plan.iteration.begin(), plan.iteration.begin() + static_cast<std::ptrdiff_t>(by), plan.iteration.end());
  for (PlannedRequest& request : plan.iteration) {
    const planner::Time lifetime = request.end - request.begin;
    request.begin = (request.begin - start + plan.period) % plan.period;
    request.end = request.begin + lifetime;
  }
  return plan;
}

TEST(PlanContent, IsTheSameWhoeverMadeThePlanAndWheneverTheyLooked) {
  const std::uint64_t key = ContentKey(Example());
  EXPECT_NE(key, 0u);
  for (std::size_t by = 1; by < 12; ++by) EXPECT_EQ(ContentKey(Turned(Example(), by)), key) << by;

  Plan other = Example();
  other.rank = 3;
  other.device_ordinal = 3;
  other.page_count = 99;
  other.iteration[4].slot.kind = planner::Slot::Kind::kRun;
  other.iteration[4].waits = true;
  other.iteration[7].end += 1;  // a free that another thread makes
  other.persistent.insert(other.persistent.begin(), Request(9, 512, 0, 0));
  EXPECT_EQ(ContentKey(other), key);
  EXPECT_TRUE(AreAlike(other, Example()));
}

TEST(PlanContent, DiffersWithWhatTheProgramAsksFor) {
  const std::uint64_t key = ContentKey(Example());
  const auto differs = [&](auto change) {
    Plan plan = Example();
    change(plan);
    return ContentKey(plan) != key;
  };
  EXPECT_TRUE(differs([](Plan& plan) { plan.iteration[5].size_bytes += 512; }));
  EXPECT_TRUE(differs([](Plan& plan) { plan.iteration[5].call_site = 7; }));
  EXPECT_TRUE(differs([](Plan& plan) { plan.iteration[5].stream = 1; }));
  EXPECT_TRUE(differs([](Plan& plan) { plan.iteration.pop_back(); }));
  EXPECT_TRUE(differs([](Plan& plan) { std::swap(plan.iteration[2], plan.iteration[3]); })) << "the order";
  EXPECT_TRUE(differs([](Plan& plan) { plan.persistent[1].size_bytes += kMiB; }));
  EXPECT_TRUE(differs([](Plan& plan) { plan.persistent.pop_back(); }));
  EXPECT_TRUE(differs([](Plan& plan) {  // two iterations are not one
    const std::vector<PlannedRequest> once = plan.iteration;
    plan.iteration.insert(plan.iteration.end(), once.begin(), once.end());
  }));
  EXPECT_NE(ContentKey({}), 0u);
}

TEST(PlanContent, PlansWhoseBlocksLiveMuchLongerAreNotAlike) {
  Plan longer = Example();
  for (PlannedRequest& request : longer.iteration) request.end += 3;
  EXPECT_EQ(ContentKey(longer), ContentKey(Example()));
  EXPECT_FALSE(AreAlike(longer, Example()));
  EXPECT_FALSE(AreAlike(Example(), longer));
}

// Nobody would follow the one where the other is meant.
TEST(PlanContent, PlansOfSizesThatScaleAreNotAlikeIfTheirRunsBeganOtherwise) {
  Plan one = Example();
  one.configuration = 1;
  one.beginning = {3 * kMiB};
  Plan other = one;
  other.configuration = 2;
  other.beginning = {5 * kMiB};
  EXPECT_TRUE(AreAlike(one, other)) << "fixed sizes tell by themselves";
  one.iteration[3].scales = other.iteration[3].scales = true;
  EXPECT_FALSE(AreAlike(one, other));
  other.beginning = one.beginning;
  EXPECT_TRUE(AreAlike(one, other));
  other.beginning.clear();
  other.configuration = one.configuration;
  EXPECT_TRUE(AreAlike(one, other));
}

}  // namespace
}  // namespace stalloc::runtime
