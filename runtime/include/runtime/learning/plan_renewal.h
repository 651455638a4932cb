// A plan of an iteration whose sizes scale, made anew when it has been outgrown.
//
// Nothing has to be watched for that: what was too large for its slot is noted with the plan in force, size and place,
// and lifetimes are as they were.
#pragma once

#include "runtime/device/device_memory.h"
#include "runtime/learning/plan_problem.h"

namespace stalloc::runtime {

// The task of the plan in force as things are now, around the blocks that live and stay. It is the incumbent.
PlanningTask TaskOf(const PlanFollower::Scaled& scaled, const DeviceMemory& memory);

// Makes room in the task for what has outgrown the plan in force. The incumbent becomes how the iteration was served in
// which that happened last: much of it online, at places that were free side by side.
void MakeRoom(const PlanFollower::Scaled& scaled, const DeviceMemory& memory, PlanningTask* task);

// Whether so much room needs no more memory than the program has needed by itself: the largest sizes may come from
// several iterations.
bool IsNeeded(const PlanningTask& task, const DeviceMemory& memory);

}  // namespace stalloc::runtime
