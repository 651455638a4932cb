#include "greedy.h"

#include <algorithm>

namespace stalloc::planner {

std::optional<Packing> PlaceInOrder(const Instance& instance, const Order& order, Fit fit, Bytes ceiling,
                                    Occupancy& occupancy) {
  occupancy.Clear();
  Packing packing;
  packing.offsets.resize(instance.size());
  for (const std::uint32_t i : order) {
    const Block& block = instance.blocks[i];
    const Bytes offset = fit == Fit::kFirst ? occupancy.FirstFit(block) : occupancy.BestFit(block);
    const Bytes end = offset + block.size;
    if (end > ceiling) return std::nullopt;
    packing.offsets[i] = offset;
    packing.height = std::max(packing.height, end);
    occupancy.Add(block.first, block.last, offset, end);
  }
  return packing;
}

}  // namespace stalloc::planner
