// From a file to the problem that `stalloc plan` solves, and from its placement to a plan file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/model.h"
#include "tools/load.h"

namespace stalloc::tools {

struct PlanningInput {
  std::string format;                 // see LoadedFile
  std::optional<std::uint32_t> step;  // of the trace that was taken
  planner::Problem problem;
  std::vector<std::string> ids;           // of the requests, for people
  std::vector<std::uint64_t> call_sites;  // of the requests; empty: unknown
};

// A table of lifetimes as a whole, or one step of a trace (nullopt: the last whole one). Throws Failure.
PlanningInput LoadPlanningInput(const std::string& path, std::optional<std::uint32_t> step, TraceEnd end);

// Writes the placement as a plan: one run of the base range for each request, in the order in which they begin.
void WritePlan(const std::string& path, const PlanningInput& input, const planner::Placement& placement, bool force);

}  // namespace stalloc::tools
