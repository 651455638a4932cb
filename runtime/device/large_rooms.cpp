#include "runtime/device/large_rooms.h"

#include <algorithm>

namespace stalloc::runtime {

// The size's place in seen_; behind its end: it is not there.
std::size_t LargeRooms::Find(Granule granules) const noexcept {
  const auto seen = std::find_if(seen_.begin(), seen_.end(), [&](const Seen& s) { return s.granules == granules; });
  return static_cast<std::size_t>(seen - seen_.begin());
}

Run LargeRooms::Place(Run room, Run proposed) noexcept {
  const Granule granules = proposed.length();
  const std::size_t at = Find(granules);
  if (at == seen_.size()) {
    seen_[oldest_] = {granules, room, proposed.begin, false};
    oldest_ = (oldest_ + 1) % seen_.size();
    return proposed;
  }
  Seen& seen = seen_[at];
  // A room that is the same as before says nothing new: the block stays where it was in it.
  if (seen.room.end != room.end)
    seen.at_end = false;
  else if (seen.room.begin != room.begin)
    seen.at_end = true;
  seen.room = room;
  seen.begin = proposed.begin;
  if (seen.at_end) seen.begin = std::max(seen.begin, (room.end - granules) / kPageGranules * kPageGranules);
  return {seen.begin, seen.begin + granules};
}

std::optional<Run> LargeRooms::Last(Granule granules) const noexcept {
  const std::size_t at = Find(granules);
  if (at == seen_.size()) return std::nullopt;
  return Run{seen_[at].begin, seen_[at].begin + granules};
}

}  // namespace stalloc::runtime
