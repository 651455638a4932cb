#include "page_packer.h"

#include <algorithm>
#include <utility>

#include "slot_pieces.h"

namespace stalloc::planner {

PagePacker::PagePacker(const Instance& instance, std::vector<Bytes> sizes, Bytes paged_from)
    : instance_(instance),
      sizes_(std::move(sizes)),
      paged_from_(std::max(paged_from, Bytes{1})),
      occupancy_(instance) {}

void PagePacker::Take(std::uint32_t request, const Slot& slot) {
  ForPieces(slot, instance_.blocks[request].size, [&](Bytes begin, Bytes end) { occupancy_.Add(request, begin, end); });
}

bool PagePacker::Fits(std::uint32_t request, const Slot& slot) {
  bool fits = true;
  ForPieces(slot, instance_.blocks[request].size, [&](Bytes begin, Bytes end) {
    if (fits) fits = RoomAbove(request, begin) >= end - begin;
  });
  return fits;
}

Bytes PagePacker::RoomAbove(std::uint32_t request, Bytes offset) {
  const auto [begin, end] = occupancy_.GapFrom(request, offset);
  return begin == offset ? end - begin : 0;
}

std::optional<Slot> PagePacker::FindRun(std::uint32_t request, std::uint64_t ceiling_pages) {
  const Bytes offset = occupancy_.FirstFit(request);
  if (offset + sizes_[request] > ceiling_pages * kPageBytes) return std::nullopt;
  Slot slot;
  slot.kind = Slot::Kind::kRun;
  slot.offset_bytes = offset;
  return slot;
}

std::optional<Slot> PagePacker::FindPages(std::uint32_t request, std::uint64_t ceiling_pages) {
  if (sizes_[request] < paged_from_) return std::nullopt;
  const Block& block = instance_.blocks[request];
  const std::uint64_t whole = block.size / kPageBytes;
  const Bytes rest = block.size % kPageBytes;
  Slot slot;
  slot.kind = Slot::Kind::kPaged;
  std::optional<std::uint32_t> last;  // a page whose beginning alone is free, for the rest of the size
  Bytes last_room = kUnlimited;
  const Bytes ceiling = ceiling_pages * kPageBytes;
  occupancy_.ForGaps(request, [&](Bytes begin, Bytes end) {
    end = std::min(end, ceiling);
    if (begin >= end) return false;
    const std::uint64_t first = (begin + kPageBytes - 1) / kPageBytes;
    const std::uint64_t beyond = std::max(first, end / kPageBytes);
    for (std::uint64_t page = first; page < beyond && slot.pages.size() <= whole; ++page) {
      slot.pages.push_back(static_cast<std::uint32_t>(page));
    }
    const Bytes room = end > beyond * kPageBytes ? end - beyond * kPageBytes : 0;
    if (rest > 0 && room >= rest && room < last_room) {
      last = static_cast<std::uint32_t>(beyond);
      last_room = room;
    }
    return slot.pages.size() <= whole;
  });
  if (slot.pages.size() < whole) return std::nullopt;
  if (rest == 0) {
    slot.pages.resize(whole);
  } else if (last) {
    slot.pages.resize(whole);
    slot.pages.push_back(*last);
  } else if (slot.pages.size() == whole) {
    return std::nullopt;
  }
  return slot;
}

std::optional<std::vector<Slot>> PagePacker::Pack(const Order& order, std::uint64_t ceiling_pages,
                                                  std::uint32_t* stuck) {
  Clear();
  std::vector<Slot> slots(instance_.size());
  for (const std::uint32_t request : order) {
    std::optional<Slot> slot = FindRun(request, ceiling_pages);
    if (!slot) slot = FindPages(request, ceiling_pages);
    if (!slot) {
      *stuck = request;
      return std::nullopt;
    }
    Take(request, *slot);
    slots[request] = std::move(*slot);
  }
  return slots;
}

}  // namespace stalloc::planner
