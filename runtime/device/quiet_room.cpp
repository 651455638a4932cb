#include "runtime/device/quiet_room.h"

namespace stalloc::runtime {

// Returns false if it is not known, or there are too many.
bool QuietRoom::ListWanted(const PlanInForce& plan, std::size_t index) {
  wanted_.clear();
  if (index >= plan.uses.size()) return false;
  const std::int64_t end = plan.uses[index].end;
  std::int64_t iteration_begin = 0;
  for (std::size_t k = index + 1;; ++k) {
    if (k == plan.uses.size()) {  // what the next iteration wants
      k = 0;
      iteration_begin = plan.period;
    }
    const PlanInForce::SlotUse& use = plan.uses[k];
    if (k == index || iteration_begin + use.begin >= end) break;
    const BlockPlace& slot = plan.slots[k];
    if (slot.kind == BlockPlace::Kind::kRun) wanted_.push_back({slot.begin, slot.begin + use.granules});
    if (slot.kind == BlockPlace::Kind::kPages) {
      const std::size_t pages = std::min<std::size_t>(slot.pages.size(), PagesUnder(slot.begin, use.granules));
      for (std::size_t j = 0; j < pages; ++j)
        wanted_.push_back(GranulesInPage(slot.pages[j], j, slot.begin, use.granules));
    }
    if (wanted_.size() > kMostWanted) return false;
  }
  std::sort(wanted_.begin(), wanted_.end(), [](Run a, Run b) { return a.begin < b.begin; });
  return true;
}

}  // namespace stalloc::runtime
