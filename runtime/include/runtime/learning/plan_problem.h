// From a pattern and the state of memory to what the planner is asked.
//
// Runs on the learner's thread; allocates freely; makes no driver call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "planner/page_plan.h"
#include "runtime/device/device_memory.h"
#include "runtime/following/plan_in_force.h"
#include "runtime/learning/seen.h"
#include "runtime/recurrence/recurrence.h"

namespace stalloc::runtime {

inline planner::Bytes WholeGranules(planner::Bytes bytes) { return planner::Bytes{GranulesOf(bytes)} * kGranuleBytes; }

struct PlanRequest {
  const Pattern& pattern;
  const SeenBlocks& seen;
  const SeenOrder& order;
  const DeviceMemory& memory;
  int deadline_ms = 500;
};

// One iteration as the planner sees it, and what is needed to make a plan of its answer.
struct PlanningTask {
  Pattern pattern;
  std::vector<std::size_t> members;  // which of the pattern's requests are planned, in order
  planner::PageProblem pages;        // of these; the incumbent is where the example iteration was served
  std::vector<SlotOrder> order;      // what each of them needs of the order between streams; empty: nothing
  std::uint64_t hole_pages = 0;      // fixed blocks of `pages` that are pages which do not exist
  bool all_observed = false;         // the incumbent has a slot for each
  // Where blocks of requests that are not planned lie now, each with its request: no slot lies there.
  std::vector<std::pair<std::size_t, Run>> staying;
  std::vector<DeviceMemory::LiveBlock> kept;  // all blocks that cannot move, by allocation number
};

// This run's task, around the blocks that cannot move.
PlanningTask TaskOf(const PlanRequest& request);

// Pages that were given back are not asked for again: other pages are held in their place. Says what is held, too.
void AddHoles(const DeviceMemory& memory, PlanningTask* task);

// The pattern's plannable requests as a planning problem on a circle; `members` says which ones they are.
planner::Problem ProblemOf(const Pattern& pattern, std::vector<std::size_t>* members);

// What was there before the iteration and still is, or was made in it, or in those after it, to stay: it cannot move.
// By allocation number.
std::vector<DeviceMemory::LiveBlock> PersistentBlocks(const Pattern& pattern, const DeviceMemory& memory);

// The bytes of the base range in which a block lies.
void AppendRuns(const BlockPlace& place, planner::Bytes size_bytes, std::vector<planner::FixedBlock>* runs);

// Where a block was served that was seen to lie at `begin`, in `view` if that is not kNoView; the places of an
// iteration's blocks are a plan that is known to fit what is held. kNone if the view has no room for `size_bytes` by
// now.
BlockPlace ServedPlace(ViewIndex view, Granule begin, planner::Bytes size_bytes, const DeviceMemory& memory);

planner::Slot SlotOf(const BlockPlace& place);
BlockPlace PlaceOf(const planner::Slot& slot);

}  // namespace stalloc::runtime
