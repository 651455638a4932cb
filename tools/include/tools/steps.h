// Training steps of a trace that does not name them.
#pragma once

#include "planner/trace_problem.h"

namespace stalloc::tools {

// Numbers the iterations that the runtime's learner finds in a trace without steps: Trace::steps counts them from 1,
// and is 0 for what comes before the first. The trace stays as it is if nothing repeats in it.
void LabelSteps(planner::Trace* trace);

}  // namespace stalloc::tools
