// QuietRoom: where a request whose slot is taken is in nobody's way.
//
// Served wherever there is room, it would lie in other requests' slots, they in yet others', and so on from iteration
// to iteration: where memory is as full as it can be, a plan that takes over while blocks of before are still about
// would never be followed. So it is looked for room in which no slot is wanted before the request's block is to end.
//
// Used under the device's lock. Allocates only while its list grows, up to kMostWanted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/following/plan_in_force.h"
#include "runtime/pages/free_space.h"

namespace stalloc::runtime {

class QuietRoom {
 public:
  // The smallest run that is free, `usable` (as FreeSpace::VisitRuns has it) and quiet for request `index` of `plan`,
  // cut to `granules`. nullopt: there is none, or so many slots are wanted until then that looking would take too long.
  template <typename Usable>
  std::optional<Run> Find(const FreeSpace& space, const PlanInForce& plan, std::int32_t index, Granule granules,
                          Usable usable) {
    if (!ListWanted(plan, static_cast<std::size_t>(index))) return std::nullopt;
    Run best{};
    const auto offer = [&](Granule begin, Granule end) {
      if (begin >= end || end - begin < granules) return;
      if (best.length() == 0 || end - begin < best.length()) best = {begin, end};
    };
    auto next = wanted_.begin();
    Granule quiet_from = 0;
    space.VisitRuns(usable, [&](Run run) {
      for (; next != wanted_.end() && next->begin < run.end; ++next) {
        offer(std::max(quiet_from, run.begin), next->begin);
        quiet_from = std::max(quiet_from, next->end);
      }
      offer(std::max(quiet_from, run.begin), run.end);
    });
    if (best.length() == 0) return std::nullopt;
    return Run{best.begin, best.begin + granules};
  }

 private:
  static constexpr std::size_t kMostWanted = 1u << 13;

  bool ListWanted(const PlanInForce& plan, std::size_t index);

  std::vector<Run> wanted_;  // what slots are wanted before the request's block ends, by begin
};

}  // namespace stalloc::runtime
