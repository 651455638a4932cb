#include "runtime/learning/plan_problem.h"

#include <algorithm>
#include <optional>

#include "runtime/learning/plan_order.h"

namespace stalloc::runtime {

namespace {

using planner::Bytes;
using planner::FixedBlock;
using planner::Problem;

bool Plannable(const PatternRequest& request) {
  return (!request.size_varies || request.scales) && !request.persists && request.size_bytes != 0;
}

// Which request of the pattern a block is: of the example iteration, or, where iterations are the same request for
// request, of the one before it or any after it. nullopt: not known.
std::optional<std::size_t> RequestOf(const Pattern& pattern, std::uint64_t number) {
  const std::uint64_t count = pattern.requests.size();
  const std::uint64_t earliest =
      pattern.exact ? pattern.first_block - std::min(pattern.first_block, count) + 1 : pattern.first_block;
  if (count == 0 || number < earliest || (number >= pattern.last_block && !pattern.exact)) return std::nullopt;
  return static_cast<std::size_t>((number + count - pattern.first_block) % count);
}

}  // namespace

Problem ProblemOf(const Pattern& pattern, std::vector<std::size_t>* members) {
  Problem problem;
  problem.period = pattern.period;
  problem.alignment_bytes = kGranuleBytes;
  for (std::size_t i = 0; i < pattern.requests.size(); ++i) {
    const PatternRequest& r = pattern.requests[i];
    // A block that lives longer than an iteration has company of its own kind: it has no one place.
    if (!Plannable(r) || r.end - r.begin > pattern.period) continue;
    problem.requests.push_back({WholeGranules(r.size_bytes), r.begin, r.end, r.stream});
    members->push_back(i);
  }
  return problem;
}

void AppendRuns(const BlockPlace& place, Bytes size_bytes, std::vector<FixedBlock>* runs) {
  const Granule granules = GranulesOf(size_bytes);
  if (place.kind == BlockPlace::Kind::kRun) {
    runs->push_back({Bytes{place.begin} * kGranuleBytes, Bytes{granules} * kGranuleBytes});
    return;
  }
  for (std::size_t k = 0; k < place.pages.size(); ++k) {
    const Run run = GranulesInPage(place.pages[k], k, place.begin, granules);
    runs->push_back({Bytes{run.begin} * kGranuleBytes, Bytes{run.length()} * kGranuleBytes});
  }
}

BlockPlace ServedPlace(ViewIndex view, Granule begin, Bytes size_bytes, const DeviceMemory& memory) {
  BlockPlace place;
  if (view != kNoView) {
    place.pages = memory.PagesOfView(view);
    const std::size_t pages = PagesUnder(begin, GranulesOf(size_bytes));
    if (place.pages.size() < pages) return {};
    place.pages.resize(pages);  // a view may be longer than its block
  }
  place.kind = view == kNoView ? BlockPlace::Kind::kRun : BlockPlace::Kind::kPages;
  place.begin = begin;
  return place;
}

planner::Slot SlotOf(const BlockPlace& place) {
  planner::Slot slot;
  if (place.kind == BlockPlace::Kind::kRun) {
    slot.kind = planner::Slot::Kind::kRun;
    slot.offset_bytes = Bytes{place.begin} * kGranuleBytes;
  } else if (place.kind == BlockPlace::Kind::kPages) {
    slot.kind = planner::Slot::Kind::kPaged;
    slot.offset_bytes = Bytes{place.begin} * kGranuleBytes;
    slot.pages = place.pages;
  }
  return slot;
}

BlockPlace PlaceOf(const planner::Slot& slot) {
  BlockPlace place;
  if (slot.kind == planner::Slot::Kind::kRun) {
    place.kind = BlockPlace::Kind::kRun;
    place.begin = static_cast<Granule>(slot.offset_bytes / kGranuleBytes);
  } else if (slot.kind == planner::Slot::Kind::kPaged) {
    place.kind = BlockPlace::Kind::kPages;
    place.begin = static_cast<Granule>(slot.offset_bytes / kGranuleBytes);
    place.pages = slot.pages;
  }
  return place;
}

std::vector<DeviceMemory::LiveBlock> PersistentBlocks(const Pattern& pattern, const DeviceMemory& memory) {
  std::vector<DeviceMemory::LiveBlock> live = memory.LiveBlocks();
  std::erase_if(live, [&](const DeviceMemory::LiveBlock& block) {
    const std::optional<std::size_t> request = RequestOf(pattern, block.info.number);
    return block.info.number >= pattern.first_block && !(request && pattern.requests[*request].persists);
  });
  std::sort(live.begin(), live.end(), [](const auto& a, const auto& b) { return a.info.number < b.info.number; });
  return live;
}

void AddHoles(const DeviceMemory& memory, PlanningTask* task) {
  task->hole_pages = 0;
  for (const Run& hole : memory.Holes()) {
    task->pages.problem.fixed.push_back({Bytes{hole.begin} * kGranuleBytes, Bytes{hole.length()} * kGranuleBytes});
    task->hole_pages += hole.length() / kPageGranules;
  }
  task->pages.held_pages = memory.Counters().reserved_bytes / kPageBytes + task->hole_pages;
}

PlanningTask TaskOf(const PlanRequest& request) {
  PlanningTask task;
  task.pattern = request.pattern;
  Problem problem = ProblemOf(task.pattern, &task.members);
  task.order = AddStreamOrder(task.pattern, task.members, request.seen, request.order, &problem);
  task.kept = PersistentBlocks(task.pattern, request.memory);
  for (const auto& block : task.kept) {
    AppendRuns(block.place, block.info.size_bytes, &problem.fixed);
    const std::optional<std::size_t> which = RequestOf(task.pattern, block.info.number);
    if (which && block.place.kind == BlockPlace::Kind::kRun && task.pattern.requests[*which].persists &&
        task.pattern.requests[*which].size_bytes == block.info.size_bytes)
      task.staying.emplace_back(*which, Run{block.place.begin, block.place.begin + GranulesOf(block.info.size_bytes)});
  }
  task.pages.problem = std::move(problem);
  AddHoles(request.memory, &task);

  // As it was served: the incumbent, which needs no page and no mapping that is not there already.
  task.all_observed = true;
  for (const std::size_t member : task.members) {
    const SeenBlocks::Block* block = request.seen.Find(task.pattern.requests[member].example_block);
    planner::Slot slot;
    if (block == nullptr) {
      task.all_observed = false;
    } else {
      const Bytes size_bytes = task.pattern.requests[member].size_bytes;
      slot = SlotOf(ServedPlace(block->view, block->begin, size_bytes, request.memory));
    }
    task.pages.incumbent.push_back(std::move(slot));
  }
  return task;
}

}  // namespace stalloc::runtime
