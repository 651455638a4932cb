// LargeRooms: where a large block lies, so that it lies there again.
//
// What is stitched beside large blocks is stitched of the pages that they leave, and kept; it is of use again where
// they lie as they did then. Best fit lays a block elsewhere as soon as any room has changed: an evaluation makes
// memory grow, and is laid out anew, in other views, the next time. So once a program is past its first iterations
// (DeviceMemory::FindLast) a large block lies where best fit last laid one of its size, if that is free and at an end
// of its room: in the middle it would split it.
//
// Best fit lays a block at the front of its room, but for a program's first iterations (DeviceMemory::PlaceIn). Where a
// program's sizes vary from iteration to iteration, the front moves with what was allocated before, while the end,
// below what stays, does not: a large block at the front then moves too, and with it the pages that are left over,
// which have to be exchanged in the views every time. So a large block whose room ends where it ended before, but
// begins elsewhere, goes to its end.
//
// Only for blocks so large that few of them are live at a time: many, at ends of their own, splinter what best fit
// keeps together. Used under the device's lock. Never allocates.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "runtime/base/granule.h"

namespace stalloc::runtime {

class LargeRooms {
 public:
  // A block of at least this part of the memory that exists is large. Chosen on replays (tests/bench/RESULTS.md).
  static constexpr Granule kPart = 16;

  // Where a block goes that would lie at `proposed` in `room`, and what it says about the next of its size.
  Run Place(Run room, Run proposed) noexcept;

  // Where Place laid the last block of this size; nullopt: there was none, or so many others since.
  std::optional<Run> Last(Granule granules) const noexcept;

 private:
  struct Seen {
    Granule granules;  // the block's; 0: none seen
    Run room;
    Granule begin;  // of the block
    bool at_end;
  };

  std::size_t Find(Granule granules) const noexcept;

  // At most kPart such blocks are live at once; beyond so many sizes the one first seen gives way.
  std::array<Seen, kPart> seen_{};
  std::size_t oldest_ = 0;
};

}  // namespace stalloc::runtime
