// AddressBits: a set of unsigned integers with predecessor and successor in a handful of word operations.
//
// A 64-ary tree of bitmaps (the word-level form of a van Emde Boas layout): bit i of level k + 1 says whether word i of
// level k is non-zero. Five levels cover 2^30 members. Not thread-safe; never allocates after construction.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "runtime/lazy_array.h"

namespace stalloc::runtime {

class AddressBits {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // Members lie in [0, limit).
  explicit AddressBits(std::uint32_t limit) {
    std::size_t bits = limit;
    for (auto& level : levels_) {
      bits = (bits + 63) / 64;
      level = LazyArray<std::uint64_t>(bits == 0 ? 1 : bits);
    }
  }

  void Insert(std::uint32_t member) noexcept {
    for (auto& level : levels_) {
      std::uint64_t& word = level[member >> 6];
      const bool was_empty = word == 0;
      word |= std::uint64_t{1} << (member & 63);
      if (!was_empty) return;
      member >>= 6;
    }
  }

  void Erase(std::uint32_t member) noexcept {
    for (auto& level : levels_) {
      std::uint64_t& word = level[member >> 6];
      word &= ~(std::uint64_t{1} << (member & 63));
      if (word != 0) return;
      member >>= 6;
    }
  }

  bool Contains(std::uint32_t member) const noexcept { return (levels_[0][member >> 6] >> (member & 63)) & 1; }

  // The largest member <= bound, or kNone.
  std::uint32_t AtOrBefore(std::uint32_t bound) const noexcept {
    for (std::size_t k = 0; k < kLevels; ++k) {
      const std::uint32_t index = bound >> 6;
      const std::uint64_t word = levels_[k][index] & (~std::uint64_t{0} >> (63 - (bound & 63)));
      if (word != 0) return Descend(k, (index << 6) | static_cast<std::uint32_t>(63 - std::countl_zero(word)), false);
      if (index == 0) return kNone;
      bound = index - 1;
    }
    return kNone;
  }

  // The smallest member >= bound, or kNone.
  std::uint32_t AtOrAfter(std::uint32_t bound) const noexcept {
    for (std::size_t k = 0; k < kLevels; ++k) {
      const std::uint32_t index = bound >> 6;
      if (index >= levels_[k].size()) return kNone;
      const std::uint64_t word = levels_[k][index] & (~std::uint64_t{0} << (bound & 63));
      if (word != 0) return Descend(k, (index << 6) | static_cast<std::uint32_t>(std::countr_zero(word)), true);
      bound = index + 1;
    }
    return kNone;
  }

 private:
  static constexpr std::size_t kLevels = 5;

  std::uint32_t Descend(std::size_t level, std::uint32_t member, bool first) const noexcept {
    while (level-- > 0) {
      const std::uint64_t word = levels_[level][member];
      const int bit = first ? std::countr_zero(word) : 63 - std::countl_zero(word);
      member = (member << 6) | static_cast<std::uint32_t>(bit);
    }
    return member;
  }

  std::array<LazyArray<std::uint64_t>, kLevels> levels_;
};

}  // namespace stalloc::runtime
