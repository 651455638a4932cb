// Exact search for small instances: a placement below a given ceiling, or the proof that there is none.
//
// Depth-first over canonical placements, block by block from below (exact_skyline.h). What cuts the tree:
//   - a block is placed only on its support, and only where nothing left could still come to lie below it (it could be
//     pushed down); then, if that fails, it is refused there, from which more follows for the other blocks;
//   - of blocks that live alike, the larger one lies below where they touch, and equal ones are tried once;
//   - where no block left crosses from one slot to the next, the two sides are searched apart.
// Pushing down lowers the sum of size x offset and exchanging neighbours that live alike keeps it, so the rules
// together lose nothing. None of this asks why two blocks may not share bytes, so an order between streams, by which
// blocks may exclude each other that share no slot, changes only which ones do.
//
// Private to planner/; one thread at a time. Instances with fixed blocks are not for it: blocks rest on blocks alone.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "instance.h"
#include "orders.h"

namespace stalloc::planner {

// Which block is placed next, among those that rest on what is placed and that nothing left could come to lie below.
// Any rule is complete; which one finds a placement at once differs from instance to instance.
struct ExactStrategy {
  enum class First {
    kFewestBranches,     // where the fewest blocks compete for a slot's floor, then the lowest, then by preference
    kLowest,             // the lowest, then where the fewest compete, then by preference
    kPreferredOfLowest,  // the lowest, then by preference: the skyline as MiniMalloc walks it
  };
  First first = First::kFewestBranches;
  std::uint64_t spare_penalty = 4;  // a slot with room to spare counts as so many more competitors
  Order preference;                 // all blocks, most wanted first
};

struct ExactResult {
  enum class Kind { kFound, kNone, kGaveUp };
  Kind kind = Kind::kGaveUp;
  std::vector<Bytes> offsets;  // kFound
  std::uint64_t nodes = 0;
};

// Searches for a placement that ends at or below `ceiling`. Gives up after `max_nodes`, or when `stop`, asked every few
// hundred nodes, says so.
ExactResult SearchExactly(const Instance& instance, Bytes ceiling, const ExactStrategy& strategy,
                          std::uint64_t max_nodes, const std::function<bool()>& stop);

}  // namespace stalloc::planner
