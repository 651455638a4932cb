#include "occupancy.h"

#include <algorithm>
#include <bit>

namespace stalloc::planner {

Occupancy::Occupancy(const Instance& instance) : instance_(instance) {
  const std::size_t leaves = std::bit_ceil(static_cast<std::size_t>(std::max<Slots>(instance.slots, 1)));
  cover_.resize(2 * leaves);
  within_.resize(2 * leaves);
  Clear();
}

void Occupancy::Clear() {
  for (Union& spans : cover_) spans.clear();
  for (Union& spans : within_) spans.clear();
  for (const FixedSpan& span : instance_.fixed) {
    if (!span.Wraps() || instance_.slots > 0) Add(span.first, span.last, span.begin, span.end);
  }
}

void Occupancy::Insert(Union& spans, Bytes begin, Bytes end) {
  // The first span that ends at or after `begin` is the first that may merge.
  auto low = std::partition_point(spans.begin(), spans.end(), [&](const Span& span) { return span.end < begin; });
  auto high = low;
  while (high != spans.end() && high->begin <= end) ++high;
  if (low == high) {
    spans.insert(low, {begin, end});
    return;
  }
  low->begin = std::min(low->begin, begin);
  low->end = std::max(std::prev(high)->end, end);
  spans.erase(std::next(low), high);
}

void Occupancy::AddBetween(std::int32_t node, Slots node_first, Slots node_last, Slots first, Slots last, Span span) {
  Insert(within_[node], span.begin, span.end);
  if (first <= node_first && node_last <= last) {
    Insert(cover_[node], span.begin, span.end);
    return;
  }
  const Slots middle = node_first + (node_last - node_first) / 2;
  if (first <= middle) AddBetween(2 * node, node_first, middle, first, last, span);
  if (last > middle) AddBetween(2 * node + 1, middle + 1, node_last, first, last, span);
}

void Occupancy::Add(Slots first, Slots last, Bytes begin, Bytes end) {
  const Slots top = static_cast<Slots>(cover_.size() / 2) - 1;
  instance_.ForPieces(first, last, [&](Slots a, Slots b) {
    if (a <= b) AddBetween(1, 0, top, a, b, {begin, end});
  });
}

void Occupancy::CollectBetween(std::int32_t node, Slots node_first, Slots node_last, Slots first, Slots last) {
  const bool inside = first <= node_first && node_last <= last;
  const Union& spans = inside ? within_[node] : cover_[node];
  if (!spans.empty()) cursors_.push_back({spans.data(), spans.data() + spans.size()});
  if (inside) return;
  const Slots middle = node_first + (node_last - node_first) / 2;
  if (first <= middle) CollectBetween(2 * node, node_first, middle, first, last);
  if (last > middle) CollectBetween(2 * node + 1, middle + 1, node_last, first, last);
}

void Occupancy::Collect(const Block& block) {
  cursors_.clear();
  const Slots top = static_cast<Slots>(cover_.size() / 2) - 1;
  instance_.ForPieces(block.first, block.last,
                      [&](Slots first, Slots last) { CollectBetween(1, 0, top, first, last); });
}

// The first gap in the union of all collected ranges that begins at or after `from`.
std::pair<Bytes, Bytes> Occupancy::NextGap(Bytes from) {
  for (;;) {
    Bytes ceiling = kUnlimited;
    bool moved = false;
    for (std::size_t c = 0; c < cursors_.size();) {
      Cursor& cursor = cursors_[c];
      while (cursor.at != cursor.end && cursor.at->end <= from) ++cursor.at;
      if (cursor.at == cursor.end) {
        cursor = cursors_.back();
        cursors_.pop_back();
        continue;
      }
      if (cursor.at->begin <= from) {
        from = cursor.at->end;
        moved = true;
      } else {
        ceiling = std::min(ceiling, cursor.at->begin);
      }
      ++c;
    }
    if (!moved) return {from, ceiling};
  }
}

Bytes Occupancy::FirstFit(const Block& block) {
  Bytes offset = 0;
  ForGaps(block, [&](Bytes begin, Bytes end) {
    offset = begin;
    return end - begin < block.size;
  });
  return offset;
}

Bytes Occupancy::BestFit(const Block& block) {
  Bytes best = 0;
  Bytes best_room = 0;
  ForGaps(block, [&](Bytes begin, Bytes end) {
    const Bytes room = end - begin;
    const bool fits = room >= block.size && (end != kUnlimited || best_room == 0);
    if (fits && (best_room == 0 || room < best_room)) {
      best = begin;
      best_room = room;
    }
    return true;
  });
  return best;
}

}  // namespace stalloc::planner
