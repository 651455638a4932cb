// Places requests one after another as runs or lists of pages below a ceiling. Private to planner/; one thread at a
// time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "instance.h"
#include "occupancy.h"
#include "orders.h"
#include "planner/plan.h"

namespace stalloc::planner {

class PagePacker {
 public:
  // `sizes` are the requests' sizes as asked for; those of at least `paged_from` bytes may be paged.
  PagePacker(const Instance& instance, std::vector<Bytes> sizes, Bytes paged_from);

  void Clear() { occupancy_.Clear(); }

  // Marks a slot's bytes as taken. Runs are taken up to the alignment, lists of pages byte by byte (rounded likewise).
  void Take(std::uint32_t request, const Slot& slot);

  // Where `request` fits below `ceiling_pages`: as a run (lowest), else as pages. nullopt: nowhere.
  std::optional<Slot> FindRun(std::uint32_t request, std::uint64_t ceiling_pages);
  std::optional<Slot> FindPages(std::uint32_t request, std::uint64_t ceiling_pages);

  // Whether a slot's bytes are free for `request`.
  bool Fits(std::uint32_t request, const Slot& slot);

  // How many bytes from `offset` upwards are free for `request`.
  Bytes RoomAbove(std::uint32_t request, Bytes offset);

  // Places all requests of `order` below the ceiling; nullopt, and *stuck, at the first that fits nowhere.
  std::optional<std::vector<Slot>> Pack(const Order& order, std::uint64_t ceiling_pages, std::uint32_t* stuck);

 private:
  const Instance& instance_;
  std::vector<Bytes> sizes_;
  Bytes paged_from_;
  Occupancy occupancy_;
};

}  // namespace stalloc::planner
