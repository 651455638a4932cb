#include "runtime/learning/planned_waits.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "planner/lower_bound.h"

namespace stalloc::runtime {
namespace {

using planner::Bytes;
using planner::Problem;
using planner::Request;
using planner::Time;

// Naively: the most bytes in use or out of reach when a request begins.
Bytes Held(const Problem& problem) {
  Bytes worst = 0;
  for (const Request& at : problem.requests) {
    Bytes held = 0;
    for (const auto& fixed : problem.fixed) held += fixed.size_bytes;
    for (std::size_t i = 0; i < problem.requests.size(); ++i) {
      const Request& r = problem.requests[i];
      const Time until = problem.reusable[i * problem.streams + at.stream];
      Time since = (at.begin - r.begin) % problem.period;
      if (since < 0) since += problem.period;
      if (since < until - r.begin) held += r.size_bytes;
    }
    worst = std::max(worst, held);
  }
  return worst;
}

struct Streams {
  Problem problem;
  std::vector<FreedIn> freed;
};

// A circle of `count` requests on a few streams. Each block is out of the others' reach for some time after its end.
Streams SomeStreams() {
  Streams made;
  const auto count = *rc::gen::inRange(1, 30);
  made.problem.period = 4 * count;
  made.problem.streams = *rc::gen::inRange<std::uint32_t>(1, 4);
  std::vector<std::pair<Time, std::size_t>> by_end;
  for (int i = 0; i < count; ++i) {
    Request r;
    r.size_bytes = *rc::gen::inRange<Bytes>(1, 100);
    r.begin = 4 * i;
    r.end = r.begin + *rc::gen::inRange<Time>(1, made.problem.period);
    r.stream = *rc::gen::inRange<std::uint32_t>(0, made.problem.streams);
    for (std::uint32_t q = 0; q < made.problem.streams; ++q) {
      const Time later = *rc::gen::inRange<Time>(0, made.problem.period);
      made.problem.reusable.push_back(q == r.stream ? r.end : std::min(r.begin + made.problem.period, r.end + later));
    }
    by_end.emplace_back(r.end, made.problem.requests.size());
    made.problem.requests.push_back(r);
  }
  std::sort(by_end.begin(), by_end.end());
  made.freed.resize(made.problem.requests.size());
  std::uint64_t position = 0;
  for (const auto& [end, i] : by_end) made.freed[i] = {made.problem.requests[i].stream, ++position};
  return made;
}

TEST(PlannedWaits, BringWhatIsHeldDownToThePeakOfLiveBytes) {
  EXPECT_TRUE(rc::check([] {
    Streams streams = SomeStreams();
    const Bytes limit = planner::PeakLive(streams.problem);
    PlanWaits(&streams.problem, streams.freed, limit, 1000);
    RC_ASSERT(Held(streams.problem) <= limit);
  }));
}

TEST(PlannedWaits, NeverLetABlockBeUsedBeforeItsEndOrTakeOrderAway) {
  EXPECT_TRUE(rc::check([] {
    Streams streams = SomeStreams();
    const Problem before = streams.problem;
    const auto at_most = *rc::gen::inRange<std::size_t>(0, 5);
    const auto waits = PlanWaits(&streams.problem, streams.freed, planner::PeakLive(before), at_most);
    RC_ASSERT(waits.size() <= at_most);
    RC_ASSERT(streams.problem.requests == before.requests);
    for (std::size_t i = 0; i < before.requests.size(); ++i) {
      for (std::uint32_t q = 0; q < before.streams; ++q) {
        const Time now = streams.problem.reusable[i * before.streams + q];
        RC_ASSERT(now >= before.requests[i].end);
        RC_ASSERT(now <= before.reusable[i * before.streams + q]);
      }
    }
  }));
}

// 100 bytes that a second stream freed lie idle while the first, which is not behind it, asks for 100 more.
TEST(PlannedWaits, WaitForTheFreeThatIsInTheWay) {
  Problem problem;
  problem.period = 100;
  problem.streams = 2;
  problem.requests = {{100, 0, 10, 1}, {100, 20, 30, 0}};
  problem.reusable = {90, 10, 30, 30};
  const auto waits = PlanWaits(&problem, {{7, 1}, {3, 1}}, 100, 8);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].at, 1u);
  EXPECT_EQ(waits[0].freed, 0u);
  EXPECT_EQ(problem.reusable[0], 20);
}

TEST(PlannedWaits, AreNoneWithinTheLimitAndNoneWithoutStreams) {
  Problem problem;
  problem.period = 100;
  problem.requests = {{100, 0, 10, 0}, {100, 20, 30, 0}};
  EXPECT_TRUE(PlanWaits(&problem, {{0, 1}, {0, 2}}, 1, 8).empty());
  problem.streams = 2;
  problem.reusable = {10, 90, 30, 90};
  EXPECT_TRUE(PlanWaits(&problem, {{0, 1}, {0, 2}}, 200, 8).empty());
}

}  // namespace
}  // namespace stalloc::runtime
