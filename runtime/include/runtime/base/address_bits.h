// AddressBits: a set of unsigned integers with predecessor and successor in a handful of word operations.
//
// A 64-ary tree of bitmaps (the word-level form of a van Emde Boas layout): bit i of level k + 1 says whether word i of
// level k is non-zero. Six levels cover all of 32 bits. Not thread-safe; never allocates after construction.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/base/lazy_array.h"

namespace stalloc::runtime {

class AddressBits {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // Members lie in [0, limit). Each level has an empty word behind its last, where a search for what comes next ends.
  explicit AddressBits(std::uint32_t limit) : limit_(limit) {
    std::size_t words = limit;
    for (auto& level : levels_) {
      words = (words + 63) / 64;
      level = LazyArray<std::uint64_t>(words + 1);
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

  // The largest member <= bound, or kNone. Precondition: bound < limit.
  std::uint32_t AtOrBefore(std::uint32_t bound) const noexcept {
    for (std::size_t k = 0; k < kLevels; ++k) {
      const std::uint32_t index = bound >> 6;
      const std::uint64_t word = levels_[k][index] & (~std::uint64_t{0} >> (63 - (bound & 63)));
      if (word != 0) {
        std::uint32_t member = index << 6 | Highest(word);
        while (k-- > 0) member = member << 6 | Highest(levels_[k][member]);
        return member;
      }
      if (index == 0) return kNone;
      bound = index - 1;
    }
    return kNone;
  }

  // The smallest member >= bound, or kNone.
  std::uint32_t AtOrAfter(std::uint32_t bound) const noexcept {
    if (bound >= limit_) return kNone;
    for (std::size_t k = 0; k < kLevels; ++k) {
      const std::uint32_t index = bound >> 6;
      const std::uint64_t word = levels_[k][index] & (~std::uint64_t{0} << (bound & 63));
      if (word != 0) {
        std::uint32_t member = index << 6 | Lowest(word);
        while (k-- > 0) member = member << 6 | Lowest(levels_[k][member]);
        return member;
      }
      bound = index + 1;
    }
    return kNone;
  }

 private:
  static constexpr std::size_t kLevels = 6;

  // The library's functions also have an answer for a word without bits, for which they look first; the words here have
  // some.
  static std::uint32_t Lowest(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(__builtin_ctzll(word)); }
  static std::uint32_t Highest(std::uint64_t word) noexcept {
    return 63u - static_cast<std::uint32_t>(__builtin_clzll(word));
  }

  std::uint32_t limit_;
  std::array<LazyArray<std::uint64_t>, kLevels> levels_;
};

}  // namespace stalloc::runtime
