// Problems for tests: generators for RapidCheck and small helpers. Header of the planner's tests only.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <string>
#include <vector>

#include "planner/model.h"

namespace stalloc::planner {

struct ProblemShape {
  std::size_t max_requests = 40;
  Bytes max_size = 64;
  Time horizon = 24;
  bool cyclic = false;
  bool fixed = false;
  bool aligned = false;
};

inline rc::Gen<Problem> AnyProblem(ProblemShape shape) {
  return rc::gen::exec([shape] {
    Problem problem;
    if (shape.cyclic) problem.period = shape.horizon;
    if (shape.aligned) problem.alignment_bytes = *rc::gen::element<Bytes>(1, 2, 8, 16);
    const auto count = *rc::gen::inRange<std::size_t>(0, shape.max_requests + 1);
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
    return problem;
  });
}

}  // namespace stalloc::planner
