#include "occupancy.h"

#include <algorithm>
#include <bit>

namespace stalloc::planner {

Occupancy::Occupancy(const Instance& instance) : instance_(instance) {
  leaves_ = std::bit_ceil(static_cast<std::size_t>(std::max<Slots>(instance.slots, 1)));
  held_.assign(instance.streams, Tree(2 * leaves_));
  begun_.assign(instance.streams + (instance.fixed.empty() ? 0 : 1), Tree(2 * leaves_));
  Clear();
}

void Occupancy::Clear() {
  for (Tree& tree : held_) {
    for (Union& spans : tree) spans.clear();
  }
  for (Tree& tree : begun_) {
    for (Union& spans : tree) spans.clear();
  }
  if (instance_.slots == 0) return;
  for (const FixedSpan& span : instance_.fixed) {
    for (Tree& held : held_) Hold(held, span.first, span.last, span.begin, span.end);
    Begin(begun_.back(), span.first, span.begin, span.end);
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

void Occupancy::Hold(Tree& held, Slots first, Slots last, Bytes begin, Bytes end) {
  instance_.ForPieces(first, last, [&](Slots a, Slots b) {
    std::size_t low = leaves_ + static_cast<std::size_t>(a);
    std::size_t high = leaves_ + static_cast<std::size_t>(b) + 1;
    for (; low < high; low /= 2, high /= 2) {
      if (low % 2 == 1) Insert(held[low++], begin, end);
      if (high % 2 == 1) Insert(held[--high], begin, end);
    }
  });
}

void Occupancy::Begin(Tree& begun, Slots first, Bytes begin, Bytes end) {
  for (std::size_t node = leaves_ + static_cast<std::size_t>(first); node > 0; node /= 2) {
    Insert(begun[node], begin, end);
  }
}

void Occupancy::Add(std::uint32_t block, Bytes begin, Bytes end) {
  const Slots first = instance_.blocks[block].first;
  for (std::uint32_t q = 0; q < instance_.streams; ++q) Hold(held_[q], first, instance_.Reach(block, q), begin, end);
  Begin(begun_[instance_.StreamOf(block)], first, begin, end);
}

void Occupancy::CollectNode(const Union& spans) {
  if (!spans.empty()) cursors_.push_back({spans.front().begin, spans.data(), spans.data() + spans.size()});
}

void Occupancy::CollectBegun(const Tree& begun, Slots first, Slots last) {
  instance_.ForPieces(first, last, [&](Slots a, Slots b) {
    std::size_t low = leaves_ + static_cast<std::size_t>(a);
    std::size_t high = leaves_ + static_cast<std::size_t>(b) + 1;
    for (; low < high; low /= 2, high /= 2) {
      if (low % 2 == 1) CollectNode(begun[low++]);
      if (high % 2 == 1) CollectNode(begun[--high]);
    }
  });
}

void Occupancy::Collect(std::uint32_t block) {
  cursors_.clear();
  const Slots first = instance_.blocks[block].first;
  const Tree& held = held_[instance_.StreamOf(block)];
  for (std::size_t node = leaves_ + static_cast<std::size_t>(first); node > 0; node /= 2) CollectNode(held[node]);
  for (std::uint32_t s = 0; s < instance_.streams; ++s) CollectBegun(begun_[s], first, instance_.Reach(block, s));
  if (!instance_.fixed.empty()) CollectBegun(begun_.back(), first, instance_.blocks[block].last);
  steps_ += cursors_.size();
  for (std::size_t k = cursors_.size() / 2; k-- > 0;) SiftDown(k);
}

void Occupancy::SiftDown(std::size_t k) {
  const std::size_t count = cursors_.size();
  const Cursor moved = cursors_[k];
  for (std::size_t child = 2 * k + 1; child < count; child = 2 * k + 1) {
    if (child + 1 < count && cursors_[child + 1].begin < cursors_[child].begin) ++child;
    if (moved.begin <= cursors_[child].begin) break;
    cursors_[k] = cursors_[child];
    k = child;
  }
  cursors_[k] = moved;
}

// The first gap in the union of all collected ranges that begins at or after `from`, which rises from call to call.
std::pair<Bytes, Bytes> Occupancy::NextGap(Bytes from) {
  while (!cursors_.empty() && cursors_.front().begin <= from) {
    Cursor& lowest = cursors_.front();
    from = std::max(from, lowest.at->end);
    do ++lowest.at;
    while (lowest.at != lowest.end && lowest.at->end <= from);
    if (lowest.at != lowest.end) {
      lowest.begin = lowest.at->begin;
    } else {
      lowest = cursors_.back();
      cursors_.pop_back();
    }
    if (!cursors_.empty()) SiftDown(0);
    ++steps_;
  }
  return {from, cursors_.empty() ? kUnlimited : cursors_.front().begin};
}

std::pair<Bytes, Bytes> Occupancy::GapFrom(std::uint32_t block, Bytes from) {
  Collect(block);
  return NextGap(from);
}

Bytes Occupancy::FirstFit(std::uint32_t block) {
  const Bytes size = instance_.blocks[block].size;
  Bytes offset = 0;
  ForGaps(block, [&](Bytes begin, Bytes end) {
    offset = begin;
    return end - begin < size;
  });
  return offset;
}

Bytes Occupancy::BestFit(std::uint32_t block) {
  const Bytes size = instance_.blocks[block].size;
  Bytes best = 0;
  Bytes best_room = 0;
  ForGaps(block, [&](Bytes begin, Bytes end) {
    const Bytes room = end - begin;
    const bool fits = room >= size && (end != kUnlimited || best_room == 0);
    if (fits && (best_room == 0 || room < best_room)) {
      best = begin;
      best_room = room;
    }
    return best_room != size;  // no gap is smaller
  });
  return best;
}

}  // namespace stalloc::planner
