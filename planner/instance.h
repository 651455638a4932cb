// A problem as the solvers want it: time cut down to the moments that matter, sizes in whole alignment units.
//
// A *slot* is a moment at which blocks have begun since the last one ended: two blocks live together if and only if
// they share a slot, so nothing else about time matters (at most as many slots as requests). On a circle, `last` may be
// below `first`: the block lives in [first, slots) and [0, last].
//
// With an order between streams (Problem::reusable), a block reaches beyond its life: for a block on stream q it takes
// up its bytes until slot Reach(i, q). The slots tell apart these longer intervals, too, so that blocks b and c may not
// share bytes if and only if [first of b, reach of b for c's stream] and [first of c, reach of c for b's stream] share
// a slot. Private to planner/; may allocate; built once, then read by any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/model.h"

namespace stalloc::planner {

using Slots = std::int32_t;

struct Block {
  Bytes size = 0;   // rounded up to the alignment
  Slots first = 0;  // first and last slot, both included
  Slots last = 0;

  bool Wraps() const { return last < first; }
};

struct FixedSpan {
  Bytes begin = 0;  // rounded outwards to the alignment
  Bytes end = 0;
  Slots first = 0;
  Slots last = 0;

  bool Wraps() const { return last < first; }
};

struct Instance {
  Slots slots = 0;
  std::vector<Block> blocks;          // in the order of Problem::requests
  std::vector<FixedSpan> fixed;       // those that meet a request in time
  std::uint32_t streams = 1;          // those that requests are on; 1 where no block reaches beyond its life
  std::vector<std::uint32_t> stream;  // per block, below streams; empty if streams == 1
  std::vector<Slots> reach;           // per block and stream: see Reach; empty if streams == 1
  std::vector<Bytes> load;            // per slot: bytes of live blocks (not of fixed ones)
  std::vector<Bytes> floor;  // per slot: lowest height under which its blocks fit between the fixed ones, as fluid
  Bytes alignment = 1;
  Bytes bound = 0;  // max of floor
  // Height that the caller sees for a placement: sizes not rounded.
  Bytes capacity = kUnlimited;

  std::size_t size() const { return blocks.size(); }

  std::uint32_t StreamOf(std::uint32_t block) const { return streams == 1 ? 0 : stream[block]; }

  // The last slot in which the block takes up its bytes as seen by blocks on stream q.
  Slots Reach(std::uint32_t block, std::uint32_t q) const {
    return streams == 1 ? blocks[block].last : reach[std::size_t{block} * streams + q];
  }

  // How many slots a block lives in.
  Slots Length(const Block& block) const {
    return block.Wraps() ? slots - block.first + block.last + 1 : block.last - block.first + 1;
  }

  // The block as long as it reaches for any stream.
  Block Extent(std::uint32_t block) const {
    Block extent = blocks[block];
    for (std::uint32_t q = 0; q < streams; ++q) {
      const Block as_seen{extent.size, extent.first, Reach(block, q)};
      if (Length(as_seen) > Length(extent)) extent = as_seen;
    }
    return extent;
  }

  template <typename Visit>  // Visit(first, last) for each of the one or two straight pieces of [first, last]
  void ForPieces(Slots first, Slots last, Visit visit) const {
    if (first <= last) {
      visit(first, last);
    } else {
      visit(first, slots - 1);
      visit(Slots{0}, last);
    }
  }
};

// `problem` must be well formed.
Instance MakeInstance(const Problem& problem);

// The slots [begin, end) of a straight instance with one stream, with some of its blocks, which live in no other slots,
// and fixed blocks whose slots count from `begin`.
Instance PartOf(const Instance& whole, Slots begin, Slots end, const std::vector<std::uint32_t>& blocks,
                std::vector<FixedSpan> fixed);

// LowerBound of the problem that the instance was made of.
Bytes TightBound(const Problem& problem, const Instance& instance);

// Whether two blocks live together.
inline bool Meet(const Block& a, const Block& b) {
  const bool wraps_a = a.Wraps();
  const bool wraps_b = b.Wraps();
  if (!wraps_a && !wraps_b) return a.first <= b.last && b.first <= a.last;
  if (wraps_a && wraps_b) return true;
  return wraps_a ? (b.first <= a.last || b.last >= a.first) : (a.first <= b.last || a.last >= b.first);
}

// Whether two blocks may not share bytes: they live together, or one reaches into the other's life.
inline bool Exclude(const Instance& instance, std::uint32_t a, std::uint32_t b) {
  return Meet({0, instance.blocks[a].first, instance.Reach(a, instance.StreamOf(b))},
              {0, instance.blocks[b].first, instance.Reach(b, instance.StreamOf(a))});
}

// Offsets of all blocks -> what the caller gets: the height counts sizes as requested.
Placement MakePlacement(const Problem& problem, std::vector<Bytes> offsets);

}  // namespace stalloc::planner
