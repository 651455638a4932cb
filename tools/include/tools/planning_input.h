// From a file to the problem that `stalloc plan` solves, and from its placement to a plan file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/model.h"
#include "planner/plan.h"
#include "tools/load.h"

namespace stalloc::tools {

struct PlanningInput {
  std::string format;  // see LoadedFile
  bool from_trace = false;
  std::optional<std::uint32_t> step;  // of the trace that was taken
  planner::Problem problem;
  std::vector<std::string> ids;           // of the requests, for people
  std::vector<std::uint64_t> call_sites;  // of the requests; empty: unknown
};

// A table of lifetimes as a whole, or one step of a trace (nullopt: the last whole one). Throws Failure.
PlanningInput LoadPlanningInput(const std::string& path, std::optional<std::uint32_t> step, TraceEnd end);

// The same of a trace that is loaded already; `path` is for errors.
PlanningInput PlanningInputOf(const std::string& path, const planner::Trace& trace, std::optional<std::uint32_t> step);

// Writes a plan with one slot for each of the input's requests, in the order in which they begin.
void WritePlan(const std::string& path, const PlanningInput& input, const std::vector<planner::Slot>& slots,
               bool force);

}  // namespace stalloc::tools
