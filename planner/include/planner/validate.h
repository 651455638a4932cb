// The independent validator: says whether a placement may be used. Deliberately naive, shares no code with the solvers,
// and is run on every plan before any use. Thread-safe, no state; may allocate.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/model.h"
#include "planner/plan.h"

namespace stalloc::planner {

// The first violation found, as a sentence that names the requests concerned; nullopt if the placement is valid:
//   - one offset for each request, a multiple of the alignment, and offset + size does not overflow;
//   - no two requests that live at the same moment (on the circle if period > 0) share a byte; with an order between
//     streams, none of which one begins before the other's memory may be used on its stream (Problem::reusable);
//   - no request shares a byte with a fixed block while both live;
//   - height_bytes is the largest offset + size, and not above the capacity.
// O(n s log n + n f) for n requests, s streams and f fixed blocks, but for bytes of many fates.
std::optional<std::string> FindViolation(const Problem& problem, const Placement& placement);

// The same for slots, byte for byte within the pages: a paged request owns its pages whole but for the last one, of
// which it owns as much as is left of its size. Requests without a slot own nothing. The alignment counts for runs;
// pages are aligned to their own size.
std::optional<std::string> FindSlotViolation(const Problem& problem, const std::vector<Slot>& slots);

}  // namespace stalloc::planner
