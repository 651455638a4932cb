#include "runtime/base/iteration_log.h"

#include <gtest/gtest.h>

#include <vector>

namespace stalloc::runtime {
namespace {

std::vector<IterationLog::Iteration> Last(const IterationLog& log) {
  std::vector<IterationLog::Iteration> last;
  log.VisitLast([&](const IterationLog::Iteration& iteration) { last.push_back(iteration); });
  return last;
}

IterationLog::Totals At(std::uint64_t requests, std::uint64_t map_calls) {
  return {.requests = requests, .map_calls = map_calls, .spent = {{10 * map_calls}}};
}

// Weights and three iterations of 100 requests were made before the plan came into force.
TEST(IterationLog, ReckonsTheIterationsBeforeThePlan) {
  IterationLog log;
  EXPECT_EQ(log.completed(), 0u);
  log.Boundary(At(320, 50), 100);
  EXPECT_EQ(log.completed(), 3u);
  EXPECT_TRUE(Last(log).empty()) << "nothing is known of one iteration alone";
  EXPECT_EQ(log.warm_from(), 0u);
  log.Boundary(At(420, 57), 100);
  ASSERT_EQ(Last(log).size(), 1u);
  EXPECT_EQ(Last(log)[0].number, 4u);
  EXPECT_EQ(Last(log)[0].spent.requests, 100u);
  EXPECT_EQ(Last(log)[0].spent.map_calls, 7u);
  EXPECT_EQ(Last(log)[0].spent.spent[Cause::kMapping], 70u);
  EXPECT_EQ(log.warm_from(), 5u) << "four are over";
  EXPECT_EQ(log.warm().map_calls, 57u);
}

TEST(IterationLog, KeepsTheLastOnes) {
  IterationLog log;
  for (std::uint64_t i = 1; i <= 40; ++i) log.Boundary(At(100 * i, i), 100);
  EXPECT_EQ(log.completed(), 40u);
  const auto last = Last(log);
  ASSERT_EQ(last.size(), IterationLog::kKept);
  EXPECT_EQ(last.front().number, 40u - IterationLog::kKept + 1);
  EXPECT_EQ(last.back().number, 40u);
  EXPECT_EQ(log.warm_from(), 5u);
  EXPECT_EQ(log.warm().map_calls, 4u);
}

// A renewed plan whose iterations begin elsewhere.
TEST(IterationLog, PartsOfAnIterationAreNone) {
  IterationLog log;
  log.Boundary(At(100, 0), 100);
  log.Boundary(At(130, 0), 100);
  EXPECT_EQ(log.completed(), 1u);
  log.Boundary(At(230, 0), 100);
  EXPECT_EQ(log.completed(), 2u);
}

}  // namespace
}  // namespace stalloc::runtime
