#include "greedy.h"

#include <algorithm>

namespace stalloc::planner {

std::optional<Packing> PlaceInOrder(const Instance& instance, const Order& order, Fit fit, Bytes ceiling,
                                    Occupancy& occupancy) {
  occupancy.Clear();
  Packing packing;
  packing.offsets.resize(instance.size());
  for (const std::uint32_t i : order) {
    const Bytes offset = fit == Fit::kFirst ? occupancy.FirstFit(i) : occupancy.BestFit(i);
    const Bytes end = offset + instance.blocks[i].size;
    if (end > ceiling) return std::nullopt;
    packing.offsets[i] = offset;
    packing.height = std::max(packing.height, end);
    occupancy.Add(i, offset, end);
  }
  return packing;
}

}  // namespace stalloc::planner
