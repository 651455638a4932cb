#include "greedy.h"

#include <algorithm>

namespace stalloc::planner {
namespace {

constexpr std::size_t kBlocksBetweenStops = 4096;

}  // namespace

std::optional<Packing> PlaceInOrder(const Instance& instance, const Order& order, Fit fit, Bytes ceiling,
                                    Occupancy& occupancy, const std::function<bool()>& stop) {
  occupancy.Clear();
  Packing packing;
  packing.offsets.resize(instance.size());
  std::size_t placed = 0;
  for (const std::uint32_t i : order) {
    if (stop && ++placed % kBlocksBetweenStops == 0 && stop()) return std::nullopt;
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
