// What an allocator that knows nothing of the future makes of a problem: the plan to compare others with, and the one
// that is in force before any other is. Thread-safe, no state; may allocate.
#pragma once

#include <vector>

#include "planner/model.h"
#include "planner/plan.h"

namespace stalloc::planner {

// Best fit, in the order in which the requests begin (as they are given, where several begin at once), as runs, with
// the order between streams kept. `problem` must be well formed. O(n log n) and the gaps looked at.
std::vector<Slot> PlaceOnline(const Problem& problem);

}  // namespace stalloc::planner
