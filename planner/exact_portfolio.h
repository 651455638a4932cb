// Exact search with restarts: many strategies for a short while each, because the time that one of them takes is heavy-
// tailed (Gomes, Selman, Crato 1997): the right one finds a placement of hundreds of blocks without turning back once.
// Private to planner/.
#pragma once

#include <cstdint>
#include <functional>

#include "exact.h"

namespace stalloc::planner {

struct ExactBudget {
  std::uint64_t first_try = 0;  // tries are numbered; each number has its strategy
  std::uint64_t tries = 100;
  std::uint64_t seed = 1;
  unsigned threads = 1;
  bool patient = false;  // some tries get the time for large trees, which only a caller with a deadline wants
};

// The first try that found a placement at or below `ceiling` or proved that there is none; kGaveUp if none did. The
// same for any number of threads unless `stop` says so first (asked by all of them at once).
ExactResult SearchWithRestarts(const Instance& instance, Bytes ceiling, const ExactBudget& budget,
                               const std::function<bool()>& stop);

}  // namespace stalloc::planner
