// The bytes of the base range on which a slot lies. Private to planner/; the validator has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "planner/plan.h"

namespace stalloc::planner {

// Calls visit(begin, end) for the pieces of a block of `size_bytes` in `slot`, in the block's order, neighbouring pages
// at once.
template <typename Visit>
void ForPieces(const Slot& slot, Bytes size_bytes, Visit visit) {
  if (slot.kind == Slot::Kind::kRun) visit(slot.offset_bytes, slot.offset_bytes + size_bytes);
  if (slot.kind != Slot::Kind::kPaged) return;
  Bytes left = size_bytes;
  for (std::size_t k = 0; k < slot.pages.size();) {
    const Bytes begin = slot.pages[k] * kPageBytes + (k == 0 ? slot.offset_bytes : 0);
    Bytes end = begin;
    for (std::uint32_t page = slot.pages[k]; k < slot.pages.size() && slot.pages[k] == page; ++k, ++page) {
      const Bytes here = std::min(left, page * kPageBytes + kPageBytes - end);
      end += here;
      left -= here;
    }
    visit(begin, end);
  }
}

}  // namespace stalloc::planner
