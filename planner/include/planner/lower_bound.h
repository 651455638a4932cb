// The height below which no placement can be: reported with every answer, and where a search may stop.
// Thread-safe, no state; may allocate.
#pragma once

#include "planner/model.h"

namespace stalloc::planner {

// The largest, over all moments, of the lowest height under which the requests live at that moment fit between the
// fixed blocks live at it, were they fluid: max live bytes if nothing is fixed and nothing aligned. With an alignment
// every block but the topmost one fills whole units. `problem` must be well formed (problem_check.h). O(n log n + T f)
// for T distinct moments and f fixed blocks.
Bytes LowerBound(const Problem& problem);

// The peak over time of the sum of live requests' and live fixed blocks' sizes, as asked for: what the program needs.
Bytes PeakLive(const Problem& problem);

}  // namespace stalloc::planner
