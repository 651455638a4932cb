#include "plan_merits.h"

#include <algorithm>

#include "slot_measure.h"
#include "stream_waits.h"

namespace stalloc::planner {
namespace {

std::vector<Bytes> SizesOf(const Problem& problem) {
  std::vector<Bytes> sizes;
  for (const Request& request : problem.requests) sizes.push_back(request.size_bytes);
  return sizes;
}

}  // namespace

bool Dominates(const PlanMerits& a, const PlanMerits& b) {
  return a.pages <= b.pages && a.handles <= b.handles && a.waits <= b.waits && a.moves <= b.moves &&
         a.headroom >= b.headroom && a != b;
}

PlanMeter::PlanMeter(const PageProblem& problem)
    : problem_(problem),
      instance_(MakeInstance(WithWaitsFrom(problem.problem, 0))),
      packer_(instance_, SizesOf(problem.problem), problem.paged_from_bytes) {}

// Requests grow upwards, so that no two that live together claim the same room.
double PlanMeter::Headroom(const std::vector<Slot>& slots, Bytes height_bytes) {
  packer_.Clear();
  for (std::uint32_t i = 0; i < slots.size(); ++i) packer_.Take(i, slots[i]);
  const Bytes top = PagesOf(height_bytes) * kPageBytes;
  double room_bytes = 0;
  double all_bytes = 0;
  for (std::uint32_t i = 0; i < slots.size(); ++i) {
    const Bytes size = problem_.problem.requests[i].size_bytes;
    const Bytes wanted = (size + kGrowthShare - 1) / kGrowthShare;
    Bytes end = slots[i].offset_bytes + instance_.blocks[i].size;
    Bytes limit = top;
    if (slots[i].kind == Slot::Kind::kPaged) {
      const Bytes last = slots[i].pages.back() * kPageBytes;
      end = last + (slots[i].offset_bytes + instance_.blocks[i].size - 1) % kPageBytes + 1;
      limit = last + kPageBytes;
    }
    Bytes room = instance_.blocks[i].size - size;
    if (end < limit) room += std::min(packer_.RoomAbove(i, end), limit - end);
    room_bytes += static_cast<double>(size) * std::min(1.0, static_cast<double>(room) / static_cast<double>(wanted));
    all_bytes += static_cast<double>(size);
  }
  return all_bytes > 0 ? room_bytes / all_bytes : 1;
}

PlanMerits PlanMeter::Measure(const std::vector<Slot>& slots) {
  const SlotMeasure measure = MeasureSlots(problem_, slots);
  PlanMerits merits;
  merits.pages = measure.page_count;
  merits.handles = measure.handles_to_map;
  merits.waits = CountWaits(problem_.problem, slots);
  merits.moves = problem_.incumbent.empty() ? 0 : measure.changes;
  merits.headroom = Headroom(slots, measure.height_bytes);
  return merits;
}

PlanMerits MeritsOf(const PageProblem& problem, const std::vector<Slot>& slots) {
  return PlanMeter(problem).Measure(slots);
}

}  // namespace stalloc::planner
