// From a pattern and the state of memory to a plan: what the solvers are asked, and what becomes of their answer.
//
// Runs on the learner's thread; allocates freely; makes no driver call.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "planner/plan.h"
#include "runtime/device/device_memory.h"
#include "runtime/following/plan_in_force.h"
#include "runtime/learning/plan_problem.h"
#include "runtime/learning/seen.h"
#include "runtime/recurrence/recurrence.h"

namespace stalloc::runtime {

struct MadePlan {
  std::shared_ptr<PlanInForce> in_force;
  std::string report;                // one sentence for the log
  std::string method;                // how the slots were found
  std::size_t planned_requests = 0;  // those that have one
};

// A plan that puts the task's requests into `slots`, one for each of its members; `order` likewise, or empty.
std::shared_ptr<PlanInForce> PlanOf(const PlanningTask& task, const std::vector<planner::Slot>& slots,
                                    const std::vector<SlotOrder>& order);

// The plan for this run, around the blocks that cannot move. Takes five times the deadline where it comes of no shorter
// one and what was served is in its own way.
MadePlan MakePlan(const PlanRequest& request);
MadePlan MakePlan(const PlanningTask& task, int deadline_ms);

// The same iteration from an empty device, for the next run: what the program makes once and keeps at the bottom, side
// by side in the order in which it is asked for, and the iteration above. First what it is a plan of, in which the
// iteration's requests have no slots yet; then the search for these, which takes until the request's deadline.
planner::Plan OutlineOf(const PlanRequest& request);
void FindSlots(const PlanRequest& request, planner::Plan* outline);

// Why a program would hold more by this plan than without it; empty: it would not. A plan may have as many pages as
// live at its peak, by its own lifetimes, and a two-hundredth of these and one more. It has more than that where what
// several streams could use in turn has got places side by side. Also says what is wrong with lifetimes that cannot be.
std::string ExcessOf(const planner::Plan& plan);

// A kept plan as the serving path uses it. By that of a run of another configuration a program goes as far as it does
// the same.
enum class KeptBy : bool { kAnotherConfiguration, kThisConfiguration };
std::shared_ptr<PlanInForce> PlanFrom(const planner::Plan& plan, KeptBy whom);

}  // namespace stalloc::runtime
