// Which bytes are taken at which slots, for placing blocks one after another without looking at all neighbours.
//
// A segment tree over slots. Every node keeps two unions of byte ranges: `cover`, of the blocks that span the whole
// node, and `within`, of those that touch it anywhere. A block's possible positions are the gaps in the union of the
// O(log slots) nodes that its lifetime is cut into (`within`) and of their ancestors (`cover`). Stacked blocks merge
// into one range, so in a good packing the unions are short whatever the number of neighbours.
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

  void Clear();  // back to the fixed blocks alone
  void Add(Slots first, Slots last, Bytes begin, Bytes end);

  // Visits the gaps open to `block` in rising order, as Visit(begin, end) -> whether to go on; the last gap reaches up
  // to kUnlimited.
  template <typename Visit>
  void ForGaps(const Block& block, Visit visit) {
    Collect(block);
    for (Bytes from = 0;;) {
      const auto [begin, end] = NextGap(from);
      if (!visit(begin, end) || end == kUnlimited) return;
      from = end;
    }
  }

  // Lowest position where `block` fits.
  Bytes FirstFit(const Block& block);
  // The lower end of the smallest gap where it fits; the open end above everything counts as the largest gap.
  Bytes BestFit(const Block& block);

 private:
  struct Span {
    Bytes begin;
    Bytes end;
  };
  using Union = std::vector<Span>;  // sorted, disjoint, not touching
  struct Cursor {
    const Span* at;
    const Span* end;
  };

  static void Insert(Union& spans, Bytes begin, Bytes end);
  void AddBetween(std::int32_t node, Slots node_first, Slots node_last, Slots first, Slots last, Span span);
  void CollectBetween(std::int32_t node, Slots node_first, Slots node_last, Slots first, Slots last);
  void Collect(const Block& block);
  std::pair<Bytes, Bytes> NextGap(Bytes from);

  const Instance& instance_;
  std::vector<Union> cover_;
  std::vector<Union> within_;
  std::vector<Cursor> cursors_;
};

}  // namespace stalloc::planner
