// Where a plan must let one stream wait for another so that its memory stays near the peak of live bytes.
//
// The program orders its streams for its data, not for memory: what a communication stream freed may be out of the
// model's reach for half an iteration, and at the peak that memory would be held twice. Pure; on the learner's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/model.h"

namespace stalloc::runtime {

// Where a block was freed: a stream, and its place among the frees of that stream, which only ever rises.
struct FreedIn {
  std::uint32_t stream = 0;
  std::uint64_t position = 0;
};

// The request `at` waits until the stream on which `freed` was freed has got to that free.
struct PlannedWait {
  std::size_t at = 0;
  std::size_t freed = 0;
};

// The fewest waits that it can find after which no request begins while more than `limit_bytes` (with all of the fixed
// blocks) are in use or out of its stream's reach; relaxes `problem->reusable` by them. Greedy: at the moment that is
// furthest above the limit, waits for the stream that needs to be waited for least, up to the oldest free that is
// enough. Gives up after `at_most` waits. `freed` has one entry for each request. O(w (n + period) s) for w waits.
std::vector<PlannedWait> PlanWaits(planner::Problem* problem, const std::vector<FreedIn>& freed,
                                   planner::Bytes limit_bytes, std::size_t at_most);

}  // namespace stalloc::runtime
