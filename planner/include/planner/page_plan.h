// Page plans: slots in a base range of 2 MiB pages, in which a large request may also lie on pages from anywhere.
//
// A run of bytes in the base range costs no mapping, but needs contiguous room. A list of pages needs none and costs
// one mapped handle for each page, once. So a plan packs runs as low as it can, and gives a list of pages to what would
// reach above the lowest number of pages. Any thread; may allocate; made for a background thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/model.h"
#include "planner/plan.h"
#include "planner/solve.h"

namespace stalloc::planner {

struct PageProblem {
  Problem problem;                          // line or circle; fixed blocks are bytes of the base range
  Bytes paged_from_bytes = kPageBytes;      // smaller requests always get a run
  std::uint64_t held_pages = 0;             // pages [0, held_pages) of the base range exist and are mapped
  std::vector<Slot> incumbent;              // empty, or one slot for each request: what is in force, or was seen online
  std::uint64_t most_handles = kUnlimited;  // a plan with more of them to map is taken only where there is no other
};

struct PagePlan {
  Solution::Status status = Solution::Status::kMalformed;  // kOptimal: page_count == lower_bound_pages
  std::vector<Slot> slots;              // one for each request, in its order; none is kNone unless malformed
  std::uint64_t page_count = 0;         // distinct pages that slots and fixed blocks touch
  std::uint64_t lower_bound_pages = 0;  // no plan of any form touches fewer
  Bytes height_bytes = 0;               // highest byte of any slot
  std::uint64_t handles_to_map = 0;     // pages of lists that the incumbent does not have, and pages above held_pages
  std::uint64_t changes = 0;            // requests whose slot differs from the incumbent's
  std::uint64_t contiguous_pages = 0;   // what the best plan of runs alone touches; 0: none was looked for
  std::uint64_t paged_pages = 0;        // what is touched if every request that may be paged is; 0: likewise
  bool cut_short = false;               // the time limit ended the search
  std::string method;
  std::string error;  // kMalformed: why
};

// Plans with the fewest pages beyond those that are held, among those with the fewest handles to map, among those with
// the fewest changes. Never returns a plan that is worse, in this order, than an incumbent that is complete and valid.
// Where that, or a plan made of its valid part, maps nothing, it is returned without a search. Deterministic as Solve
// is. Every plan is checked by FindSlotViolation before it is returned.
PagePlan PlanPages(const PageProblem& problem, const SolveOptions& options = {});

}  // namespace stalloc::planner
