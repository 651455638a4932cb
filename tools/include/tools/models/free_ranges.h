// Free ranges of one address space: found best fit (smallest that is large enough, lowest address first), merged with
// their neighbours when they come back. What every allocator model is built from.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace stalloc::tools {

class FreeRanges {
 public:
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t size() const { return end - begin; }
  };

  // Adds [begin, end), which must not overlap a free range, and merges it with the ranges that it touches.
  void Insert(Range range) {
    auto after = by_begin_.lower_bound(range.begin);
    if (after != by_begin_.begin()) {
      const auto before = std::prev(after);
      if (before->second == range.begin) {
        range.begin = before->first;
        Erase(before);
      }
    }
    if (after != by_begin_.end() && after->first == range.end) {
      range.end = after->second;
      Erase(after);
    }
    by_begin_.emplace(range.begin, range.end);
    by_size_.emplace(range.size(), range.begin);
  }

  // Removes and returns the smallest range of at least `size_bytes`, whole.
  std::optional<Range> TakeBestFit(std::uint64_t size_bytes) {
    const auto found = by_size_.lower_bound({size_bytes, 0});
    if (found == by_size_.end()) return std::nullopt;
    return Take(by_begin_.find(found->second));
  }

  // The same, but of the ranges for which `rank(range)` differs from their size the one of least rank: `rank` must not
  // be below the size.
  template <typename Rank>
  std::optional<Range> TakeBestFit(std::uint64_t size_bytes, const Rank& rank) {
    auto best = by_begin_.end();
    std::uint64_t best_rank = 0;
    for (auto it = by_size_.lower_bound({size_bytes, 0}); it != by_size_.end(); ++it) {
      if (best != by_begin_.end() && it->first >= best_rank) break;  // no later one can rank lower
      const Range range{it->second, it->second + it->first};
      const std::uint64_t range_rank = rank(range);
      if (best == by_begin_.end() || range_rank < best_rank) {
        best = by_begin_.find(range.begin);
        best_rank = range_rank;
      }
    }
    if (best == by_begin_.end()) return std::nullopt;
    return Take(best);
  }

  // Removes and returns the free range that ends at `end`, if there is one.
  std::optional<Range> TakeEndingAt(std::uint64_t end) {
    auto it = by_begin_.lower_bound(end);
    if (it == by_begin_.begin()) return std::nullopt;
    it = std::prev(it);
    if (it->second != end) return std::nullopt;
    return Take(it);
  }

 private:
  using ByBegin = std::map<std::uint64_t, std::uint64_t>;

  Range Take(ByBegin::iterator it) {
    const Range range{it->first, it->second};
    Erase(it);
    return range;
  }
  void Erase(ByBegin::iterator it) {
    by_size_.erase({it->second - it->first, it->first});
    by_begin_.erase(it);
  }

  ByBegin by_begin_;                                           // begin -> end
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // (size, begin)
};

// The next multiple of `unit`, which need not be a power of two.
constexpr std::uint64_t RoundUp(std::uint64_t bytes, std::uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace stalloc::tools
