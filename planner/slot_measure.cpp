#include "slot_measure.h"

#include <algorithm>
#include <unordered_set>

#include "slot_pieces.h"

namespace stalloc::planner {

SlotMeasure MeasureSlots(const PageProblem& problem, const std::vector<Slot>& slots) {
  SlotMeasure measure;
  std::unordered_set<std::uint64_t> touched;
  const auto touch = [&](Bytes begin, Bytes end) {
    for (std::uint64_t page = begin / kPageBytes; page < PagesOf(end); ++page) touched.insert(page);
  };
  for (const FixedBlock& block : problem.problem.fixed) touch(block.offset, block.offset + block.size_bytes);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Slot& slot = slots[i];
    const Bytes size = problem.problem.requests[i].size_bytes;
    const bool same = !problem.incumbent.empty() && problem.incumbent[i] == slot;
    if (!same) ++measure.changes;
    if (slot.kind == Slot::Kind::kPaged && !same) measure.handles_to_map += slot.pages.size();
    ForPieces(slot, size, [&](Bytes begin, Bytes end) {
      touch(begin, end);
      measure.height_bytes = std::max(measure.height_bytes, end);
    });
  }
  measure.page_count = touched.size();
  for (const std::uint64_t page : touched) measure.handles_to_map += page >= problem.held_pages;
  return measure;
}

}  // namespace stalloc::planner
