// The search behind `stalloc plan` and the plan of `stalloc report`: bytes first, then pages.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>

#include "tools/plan_report.h"
#include "tools/planning_input.h"

namespace stalloc::tools {

struct PlanSearch {
  std::optional<std::chrono::nanoseconds> time_limit{};  // of each of the two searches
  std::uint64_t seed = 1;
  unsigned threads = 0;    // 0: as many as the machine has
  std::stop_token stop{};  // ends both with the best found
};

// Draws a ProgressLine. A malformed or infeasible problem has no plan in pages; its status says so.
PlanAnswer SearchPlan(const PlanningInput& input, const PlanSearch& search);

}  // namespace stalloc::tools
