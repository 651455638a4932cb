// Problems with an order between streams (Problem::reusable). Thread-safe, no state; may allocate.
#pragma once

#include "planner/model.h"

namespace stalloc::planner {

// The same problem without an order: every request lives until the requests of all streams may use its memory. Every
// placement for it is one for `problem`, and most often a higher one than need be. `problem` must be well formed.
Problem HeldForAllStreams(const Problem& problem);

}  // namespace stalloc::planner
