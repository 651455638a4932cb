// Says what is wrong with a problem before a solver sees it. Thread-safe, no state; may allocate.
#pragma once

#include <optional>
#include <string>

#include "planner/model.h"

namespace stalloc::planner {

// Largest byte count that the planner works with: sums of two of them do not overflow 64 bits.
inline constexpr Bytes kMaxTotalBytes = Bytes{1} << 62;

// The first thing that makes `problem` no problem at all: a size of zero, an end that is not after its begin, a
// lifetime longer than the period, an alignment that is not a power of two, sizes whose sum (rounded up to the
// alignment, fixed blocks' ends included) exceeds kMaxTotalBytes, or an order between streams that breaks a rule of
// Problem::reusable. nullopt: it is well formed (it may still be infeasible).
std::optional<std::string> FindMalformed(const Problem& problem);

}  // namespace stalloc::planner
