// FreeRanges: address ranges that nobody uses, merged with their neighbours, taken best fit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace stalloc::simcuda {

class FreeRanges {
 public:
  // The smallest range that holds `size`, ties by address. What is left of it stays.
  std::optional<std::uint64_t> Take(std::uint64_t size, std::uint64_t alignment = 1) {
    for (auto it = by_size_.lower_bound({size, 0}); it != by_size_.end(); ++it) {
      const std::uint64_t begin = (it->second + alignment - 1) / alignment * alignment;
      const std::uint64_t end = it->second + it->first;
      if (begin + size > end) continue;
      const std::uint64_t range_begin = it->second;
      Erase(range_begin);
      if (begin > range_begin) Insert(range_begin, begin - range_begin);
      if (begin + size < end) Insert(begin + size, end - begin - size);
      return begin;
    }
    return std::nullopt;
  }

  // Takes exactly [begin, begin + size) if all of it is free.
  bool TakeAt(std::uint64_t begin, std::uint64_t size) {
    auto it = by_address_.upper_bound(begin);
    if (it == by_address_.begin()) return false;
    --it;
    const auto [range_begin, range_size] = *it;
    if (begin + size > range_begin + range_size) return false;
    Erase(range_begin);
    if (begin > range_begin) Insert(range_begin, begin - range_begin);
    if (begin + size < range_begin + range_size) Insert(begin + size, range_begin + range_size - begin - size);
    return true;
  }

  void Return(std::uint64_t begin, std::uint64_t size) {
    auto next = by_address_.lower_bound(begin);
    if (next != by_address_.end() && next->first == begin + size) {
      size += next->second;
      Erase(next->first);
    }
    auto previous = by_address_.lower_bound(begin);
    if (previous != by_address_.begin()) {
      --previous;
      if (previous->first + previous->second == begin) {
        begin = previous->first;
        size += previous->second;
        Erase(begin);
      }
    }
    Insert(begin, size);
  }

  const std::map<std::uint64_t, std::uint64_t>& by_address() const { return by_address_; }

 private:
  void Insert(std::uint64_t begin, std::uint64_t size) {
    by_address_.emplace(begin, size);
    by_size_.emplace(size, begin);
  }
  void Erase(std::uint64_t begin) {
    const auto it = by_address_.find(begin);
    by_size_.erase({it->second, begin});
    by_address_.erase(it);
  }

  std::map<std::uint64_t, std::uint64_t> by_address_;          // begin -> size
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // (size, begin)
};

}  // namespace stalloc::simcuda
