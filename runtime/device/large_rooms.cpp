#include "runtime/device/large_rooms.h"

#include <algorithm>

namespace stalloc::runtime {

Run LargeRooms::Place(Run room, Run proposed) noexcept {
  const Granule granules = proposed.length();
  auto seen = std::find_if(seen_.begin(), seen_.end(), [&](const Seen& s) { return s.granules == granules; });
  if (seen == seen_.end()) {
    seen = seen_.begin() + oldest_;
    oldest_ = (oldest_ + 1) % seen_.size();
    *seen = {granules, room, proposed.begin, false};
    return proposed;
  }
  // A room that is the same as before says nothing new: the block stays where it was in it.
  if (seen->room.end != room.end)
    seen->at_end = false;
  else if (seen->room.begin != room.begin)
    seen->at_end = true;
  seen->room = room;
  seen->begin = proposed.begin;
  if (seen->at_end) seen->begin = std::max(seen->begin, (room.end - granules) / kPageGranules * kPageGranules);
  return {seen->begin, seen->begin + granules};
}

std::optional<Run> LargeRooms::Last(Granule granules) const noexcept {
  const auto seen = std::find_if(seen_.begin(), seen_.end(), [&](const Seen& s) { return s.granules == granules; });
  if (seen == seen_.end()) return std::nullopt;
  return Run{seen->begin, seen->begin + granules};
}

}  // namespace stalloc::runtime
