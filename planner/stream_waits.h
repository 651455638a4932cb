// How often a plan makes one stream wait for another. Private to planner/; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/model.h"
#include "planner/plan.h"
#include "planner/plan_front.h"

namespace stalloc::planner {

// How many WaitsOf finds: see PlanMerits::waits.
std::uint64_t CountWaits(const Problem& problem, const std::vector<Slot>& slots);

// Whether the requests are on more than one stream, so that there can be waits at all.
bool HasSeveralStreams(const Problem& problem);

// The same problem, in which requests on other streams may use a request's memory as soon as it ends if it has at least
// `from_bytes` (behind a wait, if need be), and otherwise only when they may without: as Problem::reusable says, or
// never where nothing is known of the order. kUnlimited: no waits at all; 0: any.
Problem WithWaitsFrom(const Problem& problem, Bytes from_bytes);

}  // namespace stalloc::planner
