// From a pattern and the state of memory to a plan: what the solvers are asked, and what becomes of their answer.
//
// Runs on the learner's thread; allocates freely; makes no driver call.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "planner/plan.h"
#include "runtime/device_memory.h"
#include "runtime/plan_in_force.h"
#include "runtime/recurrence.h"

namespace stalloc::runtime {

// What the learner knows of each block, by allocation number.
class SeenBlocks {
 public:
  struct Block {
    std::uint64_t size_bytes = 0;
    std::uint64_t call_site = 0;
    Granule begin = 0;
    ViewIndex view = kNoView;
    StreamIndex stream = kNoStream;
  };

  void Add(std::uint64_t number, const Block& block);
  const Block* Find(std::uint64_t number) const;
  // Drops what was allocated before `number` and is not among the live ones given.
  void Forget(std::uint64_t before, const std::vector<DeviceMemory::LiveBlock>& live);

 private:
  std::vector<std::pair<std::uint64_t, Block>> kept_;  // sorted by number
};

struct PlanRequest {
  const Pattern& pattern;
  const SeenBlocks& seen;
  const DeviceMemory& memory;
  int deadline_ms = 500;
};

struct MadePlan {
  std::shared_ptr<PlanInForce> in_force;  // around the blocks that cannot move
  planner::Plan kept;                     // the same iteration from an empty device, for the next run
  std::string report;                     // one sentence for the log
};

MadePlan MakePlan(const PlanRequest& request);

// A kept plan as the serving path uses it.
std::shared_ptr<PlanInForce> PlanFrom(const planner::Plan& plan);

}  // namespace stalloc::runtime
