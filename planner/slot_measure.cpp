#include "slot_measure.h"

#include <algorithm>
#include <unordered_set>

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
    if (slot.kind == Slot::Kind::kRun) {
      touch(slot.offset_bytes, slot.offset_bytes + size);
      measure.height_bytes = std::max(measure.height_bytes, slot.offset_bytes + size);
    } else if (slot.kind == Slot::Kind::kPaged) {
      if (!same) measure.handles_to_map += slot.pages.size();
      Bytes left = size;
      for (const std::uint32_t page : slot.pages) {
        touched.insert(page);
        const Bytes here = std::min(left, kPageBytes);
        left -= here;
        measure.height_bytes = std::max(measure.height_bytes, page * kPageBytes + here);
      }
    }
  }
  measure.page_count = touched.size();
  for (const std::uint64_t page : touched) measure.handles_to_map += page >= problem.held_pages;
  return measure;
}

}  // namespace stalloc::planner
