// What is said of one device's memory: counters, what lies idle and why, and all of it at one moment. Plain values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/base/iteration_log.h"
#include "runtime/base/time_spent.h"

namespace stalloc::runtime {

// What became of requests by the plans of one device, and of the plans.
struct PlanCounters {
  std::uint64_t matched_requests = 0;  // known to the plan in force, with a slot or without, or given one of the next
  std::uint64_t slot_outgrown = 0;     // planned requests that were larger than their slot, served online
  std::uint64_t slot_busy = 0;         // planned requests whose slot was taken, served online
  std::uint64_t plans_installed = 0;
  std::uint64_t plan_returns = 0;  // a kept plan took over again
};

// Something that is had now, was had at most since the last reset, and was had altogether.
struct Tally {
  std::uint64_t now = 0;
  std::uint64_t high = 0;
  std::uint64_t total = 0;

  void Add(std::uint64_t amount) noexcept {
    total += amount;
    high = std::max(high, now += amount);
  }
  void Subtract(std::uint64_t amount) noexcept { now -= amount; }
};

// Live blocks of some sizes, as frameworks count them.
struct BlockTally {
  Tally blocks;
  Tally used_bytes;  // rounded to granules
  Tally requested_bytes;

  void Allocated(std::uint64_t requested, std::uint64_t used) noexcept {
    blocks.Add(1);
    used_bytes.Add(used);
    requested_bytes.Add(requested);
  }
  void Freed(std::uint64_t requested, std::uint64_t used) noexcept {
    blocks.Subtract(1);
    used_bytes.Subtract(used);
    requested_bytes.Subtract(requested);
  }
};

// PyTorch's border between its small and its large pool.
inline constexpr std::uint64_t kSmallBlockBytes = std::uint64_t{1} << 20;

// Counters of one device. Bytes are as requested unless they say otherwise. Read under the lock by Counters().
struct MemoryCounters : PlanCounters {
  std::uint64_t live_bytes = 0;
  std::uint64_t peak_live_bytes = 0;
  std::uint64_t used_bytes = 0;  // live, rounded to granules: what the driver's pool would call used
  std::uint64_t used_high_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t peak_reserved_bytes = 0;
  std::uint64_t reserved_high_bytes = 0;  // like peak, but the program may reset it
  std::uint64_t planned_requests = 0;
  std::uint64_t planned_bytes = 0;
  std::uint64_t online_requests = 0;
  std::uint64_t online_bytes = 0;
  std::uint64_t sorted_requests = 0;  // of the online ones, those with a LifetimeRooms::Room
  std::uint64_t frees = 0;
  std::uint64_t map_calls = 0;
  std::uint64_t unmap_calls = 0;
  SpentNs spent;
  std::uint64_t waits_inserted = 0;
  std::uint64_t stalled_ns = 0;    // that the main stream stood still at them, as far as it was measured
  std::uint64_t growth_bytes = 0;  // that may be held beyond the peak of live ones to save time
  std::uint64_t markers_recorded = 0;
  std::uint64_t views = 0;
  std::uint64_t out_of_memory = 0;  // requests that could not be served
  std::uint64_t iterations = 0;
  BlockTally small_blocks;  // of at most kSmallBlockBytes
  BlockTally large_blocks;
  Tally blocks;                           // of any size
  std::uint64_t live_high_bytes = 0;      // since the last reset
  std::uint64_t returned_page_bytes = 0;  // given back to the driver so far

  // Handed out so far, freed again or not.
  std::uint64_t allocated_bytes() const noexcept { return planned_bytes + online_bytes; }
};

// Where the memory lies that is held and not live, and why. In bytes; disjoint; parts of requests that are being served
// at this moment are in none of them.
struct IdleMemory {
  std::uint64_t usable_bytes = 0;     // whole pages, ready for any request and to be given back
  std::uint64_t ordered_bytes = 0;    // whole pages whose last use, in some stream's order, is not known to be over
  std::uint64_t remainder_bytes = 0;  // the free part of pages in which a block lives
  std::uint64_t view_bytes = 0;       // whole pages that a view maps in which a block lives: they cannot be given back
};

// What the driver has left of a device, as a share of it, says two things. Below one in kShortShare memory is short:
// what is held and not needed is given back. Above one in kSpareShare there is some to spare: more than is needed may
// be held, to save time, as long as so much is left for whoever else asks.
inline constexpr std::uint64_t kShortShare = 64;
inline constexpr std::uint64_t kSpareShare = 8;

// How short a device's memory is.
struct MemoryPressure {
  std::uint64_t held_bytes = 0;     // by this memory
  std::uint64_t free_bytes = 0;     // the driver's
  std::uint64_t device_bytes = 0;   // all of the device's
  std::uint64_t limit_bytes = 0;    // that may be held
  std::uint64_t refused_bytes = 0;  // the most that somebody was refused at once since it was last asked; 0: nobody was
};

// Everything about a device's memory at one moment.
struct MemorySnapshot {
  MemoryCounters counters;
  IdleMemory idle;
  struct Site {
    std::uint32_t tag = 0;  // see SiteTag; 0: blocks whose call site was not taken
    std::uint64_t bytes = 0;
    std::uint64_t blocks = 0;
  };
  std::vector<Site> sites;  // live blocks by call site, most bytes first
  IterationLog iterations;
};

// The memory that is held, as disjoint ranges of addresses, and the live blocks in them. A block in a view is a range
// of its own, and the pages behind it are left out of the base range: the ranges add up to what is reserved.
struct MemoryLayout {
  struct Block {
    std::uint64_t address = 0;
    std::uint64_t used_bytes = 0;
    std::uint64_t requested_bytes = 0;
  };
  struct Segment {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
    std::vector<Block> blocks;  // by address
  };
  std::vector<Segment> segments;  // by address
};

}  // namespace stalloc::runtime
