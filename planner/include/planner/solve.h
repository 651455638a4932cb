// The one call behind which all solvers stand: lifetimes in, addresses out.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "planner/model.h"

namespace stalloc::planner {

struct SolveProgress {
  Bytes best_height_bytes = 0;
  Bytes lower_bound_bytes = 0;
  std::chrono::nanoseconds elapsed{0};
  std::string method;  // of the best so far
};

struct SolveOptions {
  // The search ends when the lower bound, the capacity (if there is one) or good_enough_bytes is met. Otherwise it goes
  // on until the deadline, or, without one, until it has not improved for as long as `effort` says. The first greedy
  // pass is never cut short. From 40 000 requests on, it also ends where it is within 0.05 % of the bound and does not
  // improve.
  std::optional<std::chrono::nanoseconds> time_limit{};
  std::uint64_t seed = 1;
  unsigned threads = 1;         // 0: as many as the machine has
  double effort = 1.0;          // scales every search budget; 0: the quickest answer only (one pass)
  Bytes good_enough_bytes = 0;  // a height that ends the search: below it nothing is gained (the edge of a page, say)
  std::stop_token stop{};       // asked for between small steps
  std::function<void(const SolveProgress&)> progress{};  // called on the calling thread, a few times a second at most
};

struct Solution {
  enum class Status {
    kOptimal,     // height == lower bound, or proven by search
    kFeasible,    // valid, not proven
    kInfeasible,  // nothing within the capacity was found; `placement` is the best one found above it
    kMalformed,   // see FindMalformed; `error` says why, `placement` is empty
  };
  Status status = Status::kMalformed;
  Placement placement;          // always valid but for the capacity
  Bytes lower_bound_bytes = 0;  // see lower_bound.h
  std::string method;           // which solver found it
  std::string error;
  bool proven = false;  // kInfeasible: no placement within the capacity exists
};

// Places all requests as low as it can. The same problem, seed, effort and thread count give the same placement where
// neither deadline nor stop request cuts the search short. Every placement is checked by FindViolation before it is
// returned. Thread-safe; starts up to threads - 1 threads of its own and joins them.
Solution Solve(const Problem& problem, const SolveOptions& options = {});

}  // namespace stalloc::planner
