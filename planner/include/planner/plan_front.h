// A choice of plans: what a plan is good at, and plans none of which is worse than another in every respect.
//
// Fewer pages cost mapped handles, waits between streams, moves away from where blocks lie now, and room for them to
// grow; which of these is dear depends on the moment, so the plans are searched together (planner/many_objective.h) and
// one is taken when it is known how short memory is. Any thread; may allocate; made for a background thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "planner/page_plan.h"

namespace stalloc::planner {

// Room that counts as headroom: an eighth of the size, as much as sequence lengths vary from step to step.
inline constexpr Bytes kGrowthShare = 8;

struct PlanMerits {
  std::uint64_t pages = 0;    // distinct pages that slots and fixed blocks touch
  std::uint64_t handles = 0;  // as PagePlan::handles_to_map
  // Times in one iteration that a request takes memory which a request on another stream has used last and which is
  // not reusable on its own stream yet, so that it must wait for that stream. Where the problem gives no order between
  // several streams, every such handover is a wait.
  std::uint64_t waits = 0;
  std::uint64_t moves = 0;  // requests whose slot differs from the incumbent's; 0 without an incumbent
  // The share of bytes that could be larger by an eighth where they lie without touching another block or page, where a
  // request with room for a part of that counts in part: in [0, 1].
  double headroom = 0;

  friend bool operator==(const PlanMerits&, const PlanMerits&) = default;
};

// Whether `a` is at least as good as `b` in every merit and better in one.
bool Dominates(const PlanMerits& a, const PlanMerits& b);

// What `slots`, one for each request, are good at. `problem` must be well formed, and the slots valid for it but for
// the order between streams.
PlanMerits MeritsOf(const PageProblem& problem, const std::vector<Slot>& slots);

// The request waits until the stream of `behind` has got to where it freed that block.
struct SlotWait {
  std::uint32_t request = 0;
  std::uint32_t behind = 0;

  friend bool operator==(const SlotWait&, const SlotWait&) = default;
};

// The waits that PlanMerits::waits counts: of each request one for each stream, for what that frees last of the memory
// that the request takes. Only who used a byte last counts: whoever did so is ordered behind all users before. On a
// circle, one iteration is told that follows another.
std::vector<SlotWait> WaitsOf(const Problem& problem, const std::vector<Slot>& slots);

struct PlanChoice {
  PlanMerits merits;
  std::vector<Slot> slots;  // one for each request
  std::string method;       // which solver or search found it
};

struct PlanFrontOptions {
  std::uint64_t evaluations = 600;  // plans that the search tries, besides those of the single-objective solvers
  std::optional<std::chrono::nanoseconds> time_limit{};  // of all together
  std::uint64_t seed = 1;
  unsigned threads = 1;          // of the single-objective solvers; see SolveOptions
  double effort = 1.0;           // likewise
  std::size_t max_choices = 32;  // of those found, the best in each merit and the most different are kept
  std::stop_token stop{};
};

struct PlanFront {
  std::vector<PlanChoice> choices;  // by rising pages, then handles; none dominates another; merits differ
  std::uint64_t found = 0;          // how many there were before they were thinned out to max_choices
  std::uint64_t evaluations = 0;
  std::uint64_t lower_bound_pages = 0;  // no plan touches fewer
  std::string error;                    // the problem is malformed: why
};

// Starts from the plans of the single-objective solvers (fewest pages, no paged request, no wait, no move, full
// headroom), so that none is better than the best choice in the merit that it is for. Deterministic unless a time limit
// or a stop request cuts it short. Every choice is checked by FindSlotViolation.
PlanFront SearchPlanFront(const PageProblem& problem, const PlanFrontOptions& options = {});

// The choice for a moment at which `available_pages` may be held: among those with no more pages the one with the
// fewest handles (then waits, moves, pages); where none is that small, the one with the fewest pages. nullptr: there
// are no choices.
const PlanChoice* ChooseByPressure(const PlanFront& front, std::uint64_t available_pages);

}  // namespace stalloc::planner
