#include "planner/stream_order.h"

#include <algorithm>
#include <cstddef>

namespace stalloc::planner {

Problem HeldForAllStreams(const Problem& problem) {
  Problem held = problem;
  held.streams = 0;
  held.reusable.clear();
  if (problem.reusable.empty()) return held;
  std::vector<char> used(problem.streams, false);
  for (const Request& request : problem.requests) used[request.stream] = true;
  for (std::size_t i = 0; i < held.requests.size(); ++i) {
    for (std::size_t q = 0; q < problem.streams; ++q) {
      if (used[q]) held.requests[i].end = std::max(held.requests[i].end, problem.reusable[i * problem.streams + q]);
    }
  }
  return held;
}

}  // namespace stalloc::planner
