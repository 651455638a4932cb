// From a pattern and the state of memory to a plan: what the solvers are asked, and what becomes of their answer.
//
// Runs on the learner's thread; allocates freely; makes no driver call.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
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
    std::uint32_t occurrence = 0;  // how many of its call site and size came before, since the program's start
  };

  // Sets `occurrence` by itself.
  void Add(std::uint64_t number, Block block);
  const Block* Find(std::uint64_t number) const;
  // Drops what was allocated before `number` and is not among the live ones given.
  void Forget(std::uint64_t before, const std::vector<DeviceMemory::LiveBlock>& live);

 private:
  std::vector<std::pair<std::uint64_t, Block>> kept_;  // sorted by number
  std::unordered_map<std::uint64_t, std::uint32_t> occurrences_;
};

struct PlanRequest {
  const Pattern& pattern;
  const SeenBlocks& seen;
  const DeviceMemory& memory;
  int deadline_ms = 500;
};

struct MadePlan {
  std::shared_ptr<PlanInForce> in_force;
  double busiest_stream_share = 1.0;  // of the bytes that could have had a slot, those that got one
  std::string report;                 // one sentence for the log
};

// The plan for this run, around the blocks that cannot move.
MadePlan MakePlan(const PlanRequest& request);

// The same iteration from an empty device, for the next run: what the program makes once and keeps at the bottom, side
// by side in the order in which it is asked for, and the iteration above.
planner::Plan MakeKeptPlan(const PlanRequest& request);

// A kept plan as the serving path uses it.
std::shared_ptr<PlanInForce> PlanFrom(const planner::Plan& plan);

}  // namespace stalloc::runtime
