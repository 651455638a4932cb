#include "runtime/learning/plan_renewal.h"

#include <algorithm>

#include "planner/lower_bound.h"
#include "recurrence/recurrence_period.h"

namespace stalloc::runtime {

PlanningTask TaskOf(const PlanFollower::Scaled& scaled, const DeviceMemory& memory) {
  PlanningTask task = *scaled.plan->task;
  planner::Problem& problem = task.pages.problem;
  problem.fixed.clear();
  task.kept = memory.LiveBlocks();
  std::erase_if(task.kept, [&](const auto& block) { return block.info.number >= scaled.settled_before; });
  std::sort(task.kept.begin(), task.kept.end(),
            [](const auto& a, const auto& b) { return a.info.number < b.info.number; });
  for (const DeviceMemory::LiveBlock& block : task.kept) AppendRuns(block.place, block.info.size_bytes, &problem.fixed);
  AddHoles(memory, &task);
  task.pattern.first_block = task.pattern.last_block = scaled.settled_before;
  task.pages.incumbent.clear();
  task.all_observed = true;
  for (const std::size_t member : task.members) task.pages.incumbent.push_back(SlotOf(scaled.plan->slots[member]));
  return task;
}

void MakeRoom(const PlanFollower::Scaled& scaled, const DeviceMemory& memory, PlanningTask* task) {
  for (std::size_t k = 0; k < task->members.size(); ++k) {
    const std::size_t member = task->members[k];
    const ScaledSlot& slot = scaled.slots[member];
    PatternRequest& request = task->pattern.requests[member];
    request.size_bytes = std::max(request.size_bytes, slot.outgrown_bytes);
    task->pages.problem.requests[k].size_bytes = WholeGranules(request.size_bytes);
    if (slot.online_in == scaled.outgrown_in)
      task->pages.incumbent[k] = SlotOf(ServedPlace(slot.online_view, slot.online_begin, request.size_bytes, memory));
  }
}

bool IsNeeded(const PlanningTask& task, const DeviceMemory& memory) {
  const auto peak = static_cast<double>(memory.Counters().peak_live_bytes);
  const planner::Bytes bound = planner::LowerBound(task.pages.problem) - task.hole_pages * kPageBytes;
  return static_cast<double>(bound) <= peak * (1 + recurrence::kMostOverPeak) + kPageBytes;
}

}  // namespace stalloc::runtime
