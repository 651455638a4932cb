#include "planner/lower_bound.h"

#include <algorithm>
#include <numeric>

#include "instance.h"

namespace stalloc::planner {

// Largest padding per slot: the topmost block of a moment need not fill its last unit.
Bytes TightBound(const Problem& problem, const Instance& instance) {
  if (problem.alignment_bytes == 1) return instance.bound;
  // Blocks by falling padding; each slot takes the first that covers it (next_free: union-find over slots).
  std::vector<std::uint32_t> order(instance.size());
  std::iota(order.begin(), order.end(), 0);
  const auto padding = [&](std::uint32_t i) { return instance.blocks[i].size - problem.requests[i].size_bytes; };
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return padding(a) > padding(b); });
  std::vector<Slots> next_free(instance.slots + 1);
  std::iota(next_free.begin(), next_free.end(), 0);
  const auto find = [&](Slots t) {
    while (next_free[t] != t) t = next_free[t] = next_free[next_free[t]];
    return t;
  };
  Bytes bound = 0;
  for (const std::uint32_t i : order) {
    instance.ForPieces(instance.blocks[i].first, instance.blocks[i].last, [&](Slots first, Slots last) {
      for (Slots t = find(first); t <= last; t = find(t)) {
        bound = std::max(bound, instance.floor[t] - padding(i));
        next_free[t] = t + 1;
      }
    });
  }
  return bound;
}

Bytes LowerBound(const Problem& problem) { return TightBound(problem, MakeInstance(problem)); }

Bytes PeakLive(const Problem& problem) {
  Problem all = problem;
  all.alignment_bytes = 1;
  for (const FixedBlock& block : problem.fixed) {
    if (problem.period > 0 && static_cast<__int128>(block.end) - block.begin >= problem.period) {
      all.requests.push_back({block.size_bytes, 0, problem.period, 0});
    } else {
      all.requests.push_back({block.size_bytes, block.begin, block.end, 0});
    }
  }
  all.fixed.clear();
  all.reusable.clear();
  return MakeInstance(all).bound;
}

}  // namespace stalloc::planner
