// Which bytes are taken at which slots, for placing blocks one after another without looking at all neighbours.
//
// Two intervals of slots meet if and only if one of them holds the other's first slot. So the bytes closed to a block
// are those of the blocks that hold its first slot, and of the blocks whose first slot it holds. Two segment trees over
// slots answer that, each node with a union of byte ranges:
//   `held`   a block lies in the O(log slots) nodes that its interval is cut into: asked from a leaf up to the root;
//   `begun`  a block lies in the leaf of its first slot and in all nodes above it: asked at the nodes that an interval
//            is cut into.
// Stacked blocks merge into one range, so in a good packing the unions are short whatever the number of neighbours.
// With several streams there is one tree `held` for each stream that asks (a block's interval differs by who asks), and
// one tree `begun` for each stream that the blocks are on (the asking block's own interval differs by whom it meets).
//
// Private to planner/; one thread at a time.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "instance.h"

namespace stalloc::planner {

class Occupancy {
 public:
  // Holds the instance's fixed blocks from the start. `instance` must outlive this.
  explicit Occupancy(const Instance& instance);

  void Clear();                                           // back to the fixed blocks alone
  void Add(std::uint32_t block, Bytes begin, Bytes end);  // some bytes of a block of the instance

  // Visits the gaps open to `block` in rising order, as Visit(begin, end) -> whether to go on; the last gap reaches up
  // to kUnlimited.
  template <typename Visit>
  void ForGaps(std::uint32_t block, Visit visit) {
    Collect(block);
    for (Bytes from = 0;;) {
      const auto [begin, end] = NextGap(from);
      if (!visit(begin, end) || end == kUnlimited) return;
      from = end;
    }
  }

  // The lowest gap open to `block` that reaches above `from`, cut off below it, as begin and end.
  std::pair<Bytes, Bytes> GapFrom(std::uint32_t block, Bytes from);
  // Lowest position where `block` fits.
  Bytes FirstFit(std::uint32_t block);
  // The lower end of the smallest gap where it fits; the open end above everything counts as the largest gap.
  Bytes BestFit(std::uint32_t block);

  // How many steps all answers took so far: what they cost, the same on every machine.
  std::uint64_t Steps() const { return steps_; }

 private:
  struct Span {
    Bytes begin;
    Bytes end;
  };
  using Union = std::vector<Span>;  // sorted, disjoint, not touching
  using Tree = std::vector<Union>;  // node 1 is the root, node k has the children 2k and 2k + 1
  struct Cursor {                   // what is left of a union
    Bytes begin;                    // of *at
    const Span* at;
    const Span* end;
  };

  static void Insert(Union& spans, Bytes begin, Bytes end);
  void Hold(Tree& held, Slots first, Slots last, Bytes begin, Bytes end);
  void Begin(Tree& begun, Slots first, Bytes begin, Bytes end);
  void Collect(std::uint32_t block);
  void CollectNode(const Union& spans);
  void CollectBegun(const Tree& begun, Slots first, Slots last);
  void SiftDown(std::size_t k);
  std::pair<Bytes, Bytes> NextGap(Bytes from);

  const Instance& instance_;
  std::size_t leaves_ = 1;       // power of two
  std::vector<Tree> held_;       // by the stream that asks
  std::vector<Tree> begun_;      // by the stream that blocks are on; one more for fixed blocks, which know no streams
  std::vector<Cursor> cursors_;  // of the unions that are asked: a heap, the lowest begin on top
  std::uint64_t steps_ = 0;
};

}  // namespace stalloc::planner
