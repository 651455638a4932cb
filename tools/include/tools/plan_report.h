// What `stalloc plan` has found, and how it says so.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "planner/page_plan.h"
#include "planner/solve.h"
#include "tools/planning_input.h"

namespace stalloc::tools {

struct PlanAnswer {
  planner::Solution solution;
  double seconds = 0;
  std::optional<std::string> violation;    // of the solution, by the independent validator
  std::optional<planner::PagePlan> pages;  // of a trace: the plan in pages of 2 MiB
  double pages_seconds = 0;
  bool interrupted = false;  // by Ctrl-C: the best found until then
};

// `file` and `capacity_bytes` (kUnlimited: none) are what the user gave.
std::string PlanJson(const PlanningInput& input, const PlanAnswer& answer, const std::string& file,
                     std::uint64_t capacity_bytes);
std::string PlanText(const PlanningInput& input, const PlanAnswer& answer, const std::string& file);

}  // namespace stalloc::tools
