// Where in a pattern a token (or a run of tokens) occurs: hash to ascending positions, built once, then read only.
//
// Reading neither allocates nor throws. Different runs of tokens may share a hash: what is found is a candidate.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace stalloc::runtime::recurrence {

inline std::uint64_t Mix(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t x = (a ^ (b + 0x9E3779B97F4A7C15ull + (a << 6) + (a >> 2))) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 29)) * 0x94D049BB133111EBull;
  return x ^ (x >> 32);
}

// How many requests ago the same size was last requested, at most kReach; 0: not. The way in which sizes repeat stays
// the same where the sizes themselves change from iteration to iteration.
class RepeatDistance {
 public:
  static constexpr std::uint32_t kReach = 16;

  // The distance of a request with this `key`, which becomes the last one.
  std::uint32_t Next(std::uint64_t key) noexcept {
    const std::uint32_t distance = Of(key);
    Add(key);
    return distance;
  }
  std::uint32_t Of(std::uint64_t key) const noexcept {
    for (std::uint32_t back = 1; back <= kReach; ++back)
      if (last_[(count_ - back) % kReach] == key) return back;
    return 0;
  }
  void Add(std::uint64_t key) noexcept { last_[count_++ % kReach] = key; }

 private:
  std::uint64_t last_[kReach] = {};
  std::uint32_t count_ = kReach;
};

class PositionIndex {
 public:
  PositionIndex() = default;

  // hashes[i] is what occurs at position i; 0 marks a position that is not to be found.
  explicit PositionIndex(std::span<const std::uint64_t> hashes) {
    std::vector<std::pair<std::uint64_t, std::uint32_t>> sorted;
    sorted.reserve(hashes.size());
    for (std::uint32_t i = 0; i < hashes.size(); ++i)
      if (hashes[i] != 0) sorted.emplace_back(hashes[i], i);
    std::sort(sorted.begin(), sorted.end());
    slots_.resize(std::bit_ceil(sorted.size() * 2 + 2));
    positions_.reserve(sorted.size());
    for (std::size_t i = 0; i < sorted.size();) {
      Slot slot{sorted[i].first, static_cast<std::uint32_t>(i), 0};
      for (; i < sorted.size() && sorted[i].first == slot.hash; ++i, ++slot.count)
        positions_.push_back(sorted[i].second);
      std::size_t at = Home(slot.hash);
      while (slots_[at].count != 0) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = slot;
    }
  }

  std::span<const std::uint32_t> Find(std::uint64_t hash) const noexcept {
    if (slots_.empty()) return {};
    for (std::size_t at = Home(hash); slots_[at].count != 0; at = (at + 1) & (slots_.size() - 1))
      if (slots_[at].hash == hash) return {positions_.data() + slots_[at].first, slots_[at].count};
    return {};
  }

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t first = 0;
    std::uint32_t count = 0;  // 0: empty
  };

  std::size_t Home(std::uint64_t hash) const noexcept {
    return (hash * 0x9E3779B97F4A7C15ull >> 32) & (slots_.size() - 1);
  }

  std::vector<Slot> slots_;
  std::vector<std::uint32_t> positions_;
};

}  // namespace stalloc::runtime::recurrence
