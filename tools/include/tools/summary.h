// What `stalloc show` says of a file: the figures as JSON, and the same figures as text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "planner/csv.h"
#include "planner/plan.h"
#include "planner/trace_problem.h"
#include "tools/load.h"

namespace stalloc::tools {

void Summarise(const planner::Trace& trace, nlohmann::ordered_json* summary);
void Summarise(const planner::LifetimeTable& table, nlohmann::ordered_json* summary);
void Summarise(const planner::Plan& plan, nlohmann::ordered_json* summary);
void Summarise(const StatisticsFile& statistics, nlohmann::ordered_json* summary);

// One line a figure, keys as in the JSON; a list of objects becomes a table. Byte counts are also given in larger
// units.
std::string SummaryText(const nlohmann::ordered_json& summary);

}  // namespace stalloc::tools
