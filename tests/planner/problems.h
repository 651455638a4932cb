// Problems for tests: generators for RapidCheck and small helpers. Header of the planner's tests only.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "planner/model.h"
#include "planner/validate.h"

namespace stalloc::planner {

struct ProblemShape {
  std::size_t min_requests = 0;
  std::size_t max_requests = 40;
  Bytes max_size = 64;
  Time horizon = 24;
  bool cyclic = false;
  bool fixed = false;
  bool aligned = false;
  std::uint32_t streams = 0;  // > 0: with an order between so many
};

// Deals the requests out to streams; a stream waits for another's request for any time, or, on a circle, for ever.
inline void AddOrder(Problem* problem, const ProblemShape& shape) {
  problem->streams = shape.streams;
  for (Request& request : problem->requests) {
    request.stream = *rc::gen::inRange<std::uint32_t>(0, shape.streams);
    for (std::uint32_t q = 0; q < shape.streams; ++q) {
      Time wait = q == request.stream ? 0 : *rc::gen::inRange<Time>(0, shape.horizon);
      if (shape.cyclic) wait = std::min(wait, request.begin + problem->period - request.end);
      problem->reusable.push_back(request.end + wait);
    }
  }
}

inline rc::Gen<Problem> AnyProblem(ProblemShape shape) {
  return rc::gen::exec([shape] {
    Problem problem;
    if (shape.cyclic) problem.period = shape.horizon;
    if (shape.aligned) problem.alignment_bytes = *rc::gen::element<Bytes>(1, 2, 8, 16);
    const auto count = *rc::gen::inRange<std::size_t>(shape.min_requests, shape.max_requests + 1);
    for (std::size_t i = 0; i < count; ++i) {
      const Time begin = *rc::gen::inRange<Time>(0, shape.horizon);
      const Time length = *rc::gen::inRange<Time>(1, shape.cyclic ? shape.horizon + 1 : shape.horizon - begin + 1);
      problem.requests.push_back({*rc::gen::inRange<Bytes>(1, shape.max_size + 1), begin, begin + length, 0});
    }
    if (shape.fixed) {
      // Fixed blocks are stacked with gaps, so that none overlap one another.
      Bytes offset = 0;
      const auto fixed = *rc::gen::inRange(0, 4);
      for (int k = 0; k < fixed; ++k) {
        FixedBlock block;
        block.offset = offset + *rc::gen::inRange<Bytes>(0, shape.max_size);
        block.size_bytes = *rc::gen::inRange<Bytes>(1, shape.max_size + 1);
        if (*rc::gen::arbitrary<bool>()) {
          block.begin = *rc::gen::inRange<Time>(0, shape.horizon);
          block.end = block.begin + *rc::gen::inRange<Time>(1, shape.horizon + 1);
        }
        offset = block.offset + block.size_bytes;
        problem.fixed.push_back(block);
      }
    }
    if (shape.streams > 0) AddOrder(&problem, shape);
    return problem;
  });
}

// The lowest height there is: every order of the requests, each put at the lowest position where it fits. Some optimal
// placement is a fixed point of pushing blocks down, and the order of its offsets finds it.
inline Bytes LowestHeight(const Problem& problem) {
  std::vector<std::size_t> order(problem.requests.size());
  std::iota(order.begin(), order.end(), 0);
  Bytes best = kUnlimited;
  do {
    Problem placed = problem;  // requests placed so far become requests of a growing problem
    placed.requests.clear();
    placed.reusable.clear();
    Placement placement;
    for (const std::size_t i : order) {
      placed.requests.push_back(problem.requests[i]);
      const auto row = problem.reusable.begin() + static_cast<std::ptrdiff_t>(i * problem.streams);
      if (!problem.reusable.empty()) placed.reusable.insert(placed.reusable.end(), row, row + problem.streams);
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

}  // namespace stalloc::planner
