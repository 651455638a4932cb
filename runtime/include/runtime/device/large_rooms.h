// LargeRooms: at which end of its room a large block lies.
//
// Best fit lays a block at the front of its room, but for a program's first iterations (DeviceMemory::PlaceIn). Where a
// program's sizes vary from iteration to iteration, the front moves with what was allocated before, while the end,
// below what stays, does not: a large block at the front then moves too, and with it the pages that are left over.
// Views that were stitched of those (see MemorySearch) are no longer free as a whole when they are wanted again, and
// their pages have to be exchanged in every iteration. So a large block whose room ends where it ended before, but
// begins elsewhere, goes to its end.
//
// Only for blocks so large that few of them are live at a time: many, at ends of their own, splinter what best fit
// keeps together. Used under the device's lock. Never allocates.
#pragma once

#include <array>
#include <cstddef>

#include "runtime/base/granule.h"

namespace stalloc::runtime {

class LargeRooms {
 public:
  // A block of at least this part of the memory that exists is large. Chosen on replays (tests/bench/RESULTS.md).
  static constexpr Granule kPart = 16;

  // Where a block goes that would lie at `proposed` in `room`, and what it says about the next of its size.
  Run Place(Run room, Run proposed) noexcept;

 private:
  struct Seen {
    Granule granules;  // the block's; 0: none seen
    Run room;
    bool at_end;
  };

  // At most kPart such blocks are live at once; beyond so many sizes the one first seen gives way.
  std::array<Seen, kPart> seen_{};
  std::size_t oldest_ = 0;
};

}  // namespace stalloc::runtime
