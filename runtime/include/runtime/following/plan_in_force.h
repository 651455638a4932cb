// PlanInForce: a plan as the serving path uses it. Made by the learner, owned by PlanFollower, changed under the
// device's lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/pages/free_space.h"
#include "runtime/pages/page_store.h"
#include "runtime/pages/view_table.h"
#include "runtime/recurrence/recurrence.h"

namespace stalloc::runtime {

// Where a block lies: a run in the base range, or pages that a view stitches together.
struct BlockPlace {
  enum class Kind : std::uint8_t { kNone, kRun, kPages };
  Kind kind = Kind::kNone;
  Granule begin = 0;              // kRun: in the base range; kPages: in the first page
  ViewIndex view = kNoView;       // kPages, once mapped
  std::vector<PageNumber> pages;  // kPages
};

// What a slot needs of the order between streams beyond what the program does by itself.
struct SlotOrder {
  bool waits = false;       // the request may have to wait for another stream before it uses its slot
  bool waited_for = false;  // an event is recorded behind the block's free, for such a request
};

struct PlanningTask;

// A slot of an iteration whose sizes scale: what it has room for, and how its request was last served otherwise.
struct ScaledSlot {
  Granule room = 0;
  std::uint64_t outgrown_bytes = 0;  // the largest request that it had no room for; 0: none
  std::uint64_t online_in = 0;       // the iteration in which it was last served online, by IterationsSeen; and where:
  Granule online_begin = 0;          // as in a BlockPlace
  ViewIndex online_view = kNoView;
};

// Blocks that live and have a lower number are there to stay, if the next to be made has `next_number` and an iteration
// makes `requests`: they have outlived two.
inline std::uint64_t SettledBefore(std::uint64_t next_number, std::uint64_t requests) noexcept {
  constexpr std::uint64_t kIterationsToStay = 2;
  return next_number - std::min(next_number, kIterationsToStay * requests);
}

struct PlanInForce {
  Matcher matcher;
  Matcher::PreparedPattern prepared;  // goes into `matcher` when the plan is installed
  std::vector<BlockPlace> slots;      // by the matcher's index
  std::vector<SlotOrder> order;       // likewise; empty: no slot needs anything
  // Likewise, of requests without a slot: where no slot lies, best first. A small block that outlives the iteration
  // would keep many slots from being used, and what is served elsewhere in their place yet others.
  std::vector<std::vector<Run>> rooms;
  // When each slot is wanted, in allocations and frees from the iteration's first request on, and how much of it.
  struct SlotUse {
    std::int64_t begin = 0;
    std::int64_t end = 0;  // may lie in the next iteration
    Granule granules = 0;
  };
  std::vector<SlotUse> uses;                 // by the matcher's index; empty: not known
  std::int64_t period = 0;                   // of the iteration, in allocations and frees
  bool keep = false;                         // when another plan takes over, for the program may come back to this one
  bool guess = false;                        // kept by a run of another configuration: this one may need less
  std::vector<std::uint64_t> beginning;      // of that run: the sizes of its first requests of more than a page
  std::vector<ScaledSlot> scaled;            // by the matcher's index; empty where sizes do not scale
  std::uint64_t outgrown_in = 0;             // the iteration in which a request last had no room in its slot
  std::shared_ptr<const PlanningTask> task;  // where sizes scale: what to make a plan with more room from, if known
  std::uint64_t renewals = 0;        // how often it was tried to make it, and those before it, anew with more room
  std::uint64_t patience_until = 0;  // not again before this iteration
  std::vector<bool> touched;         // by page: a slot, or a persistent block's place, lies in it

  // After the n-th renewal n iterations must pass from `iteration` on, at most so many: sizes that always grow, or that
  // no plan can have room for, are not worth a plan for each.
  void BePatient(std::uint64_t iteration) noexcept {
    constexpr std::uint64_t kMostPatience = 32;
    patience_until = iteration + std::min(renewals, kMostPatience);
  }

  // Slots of blocks that the program makes once and keeps (weights, optimizer state), known from an earlier run: by
  // (call site, size), in the order of occurrence.
  struct Persistent {
    struct Known {
      std::uint32_t occurrence = 0;  // since the program's start
      BlockPlace place;
      std::uint32_t number = 0;  // among all that the program makes once, in the order in which it does
      std::uint64_t up_to = 0;   // granules of all of that, up to this block and with it
    };
    std::vector<Known> places;  // by occurrence, ascending
    std::size_t next = 0;
    std::uint32_t requests = 0;  // of this call site and size so far
  };
  std::unordered_map<std::uint64_t, Persistent> persistent;
  // Where blocks that the program keeps lay when the plan was made, by SiteTag and size. No slot lies there, and when
  // they have gone, the next of their like does best there: the weights of the next model that a search tries.
  struct KeptPlaces {
    std::vector<BlockPlace> places;  // in the order in which they were made
    std::size_t next = 0;            // to be looked at
  };
  std::unordered_map<std::uint64_t, KeptPlaces> kept_places;
  // Still to come. While there are any, every request's call site is taken.
  std::size_t persistent_left = 0;
  std::uint32_t persistent_came = 0;
  std::uint32_t persistent_reached = 0;  // 1 + the highest number that came: so many would have, in the plan's order
  std::uint64_t granules_came = 0;       // the same in granules
  std::uint64_t granules_reached = 0;
  // What the plan holds in all. Slots may be mapped up to here, or up to the peak of live bytes; beyond that a request
  // whose slot's pages do not exist is served from what there is.
  std::uint64_t budget_bytes = 0;
  // Requests without a slot are looked for from here on first, so that they are not in the way of those with one.
  Granule online_from = 0;

  // The program still makes what it will keep.
  bool settling() const noexcept { return persistent_left != 0; }
  // Sizes scale, and what a plan with more room would be made from is known.
  bool Scales() const { return !scaled.empty() && task != nullptr; }
  bool HasSlot(std::int32_t index) const {
    return slots[static_cast<std::size_t>(index)].kind != BlockPlace::Kind::kNone;
  }
  SlotOrder OrderOf(std::int32_t index) const {
    return order.empty() ? SlotOrder{} : order[static_cast<std::size_t>(index)];
  }
  std::span<const Run> RoomsOf(std::int32_t index) const {
    if (rooms.empty()) return {};
    return rooms[static_cast<std::size_t>(index)];
  }

  static std::uint64_t PersistentKey(std::uint64_t call_site, std::uint64_t size_bytes) {
    return (call_site * 0x9E3779B97F4A7C15ull) ^ size_bytes;
  }
};

}  // namespace stalloc::runtime
