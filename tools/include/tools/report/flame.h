// The blocks that are live at the peak, as a tree of the functions that asked for them.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

#include "planner/trace_problem.h"
#include "tools/trace_figures.h"

namespace stalloc::tools::report {

// Nodes {"n": name, "s": bytes of its own, "c": children}; the root also has "v", the sum. Outermost functions first.
// What holds less than a thousandth of the whole is summed up.
nlohmann::ordered_json FlameTree(const planner::Trace& trace, const TraceFigures& figures);

}  // namespace stalloc::tools::report
