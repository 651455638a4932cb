// The order between streams as a plan needs it: what the program does by itself, and where the plan must wait.
//
// On the learner's thread; allocates freely.
#pragma once

#include <cstddef>
#include <vector>

#include "planner/model.h"
#include "runtime/following/plan_in_force.h"
#include "runtime/learning/seen.h"
#include "runtime/recurrence/recurrence.h"

namespace stalloc::runtime {

// Puts the order between streams into `problem`, whose requests are those of `pattern` that `members` names: as the
// program itself made it in the example iteration, by its events and waits, not by what happened to have executed and
// not by waits of ours. A slot that the plan hands from one stream to another is then ordered every time that the
// program does the same again. Where that would hold more memory than lives at the peak, the plan waits by itself.
// Returns for each request what the runtime must do for it; empty if all requests are in one order anyway.
std::vector<SlotOrder> AddStreamOrder(const Pattern& pattern, const std::vector<std::size_t>& members,
                                      const SeenBlocks& seen, const SeenOrder& order, planner::Problem* problem);

}  // namespace stalloc::runtime
