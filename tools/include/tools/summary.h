// What `stalloc show` says of a file: the figures as JSON, and the same figures as text.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "planner/csv.h"
#include "planner/plan.h"
#include "planner/trace_problem.h"
#include "tools/load.h"

namespace stalloc::tools {

struct SummaryOptions {
  std::size_t top = 10;  // call sites that are listed; 0: all
};

void Summarise(const planner::Trace& trace, const SummaryOptions& options, nlohmann::ordered_json* summary);
void Summarise(const planner::LifetimeTable& table, const SummaryOptions& options, nlohmann::ordered_json* summary);
void Summarise(const planner::Plan& plan, const SummaryOptions& options, nlohmann::ordered_json* summary);
void Summarise(const StatisticsFile& statistics, const SummaryOptions& options, nlohmann::ordered_json* summary);

struct TextShape {
  std::size_t columns = 0;  // of the terminal; 0: as wide as it gets
  std::size_t rows = 0;     // of a table before its middle is left out; 0: all of them
};

// One line a figure, keys as in the JSON; a list of objects becomes a table. Byte counts are also given in larger
// units. A table that is too wide becomes several, which all begin with its first column.
std::string SummaryText(const nlohmann::ordered_json& summary, const TextShape& shape);

}  // namespace stalloc::tools
