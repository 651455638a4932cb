#include "planner/online.h"

#include <algorithm>
#include <numeric>

#include "greedy.h"
#include "instance.h"
#include "occupancy.h"
#include "orders.h"

namespace stalloc::planner {

std::vector<Slot> PlaceOnline(const Problem& problem) {
  const Instance instance = MakeInstance(problem);
  Occupancy occupancy(instance);
  // Not OrderRule::kBegin, which knows how long requests live.
  Order order(problem.requests.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return problem.requests[a].begin < problem.requests[b].begin;
  });
  const auto packing = PlaceInOrder(instance, order, Fit::kBest, kUnlimited, occupancy);
  std::vector<Slot> slots;
  for (const Bytes offset : packing->offsets) slots.push_back({Slot::Kind::kRun, offset, {}});
  return slots;
}

}  // namespace stalloc::planner
