// MappedPages: one bit for each page of an address range, set while something is mapped there and accessible.
//
// Any thread, without a lock and without allocation; a thread sets and clears the bits of pages that it has claimed.
// Who walks the set while others change it sees each bit as it was at some moment of the walk. All operations are
// sequentially consistent: a bit that is set before something else is read, is seen by whoever wrote that before he
// walks.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "runtime/base/lazy_array.h"

namespace stalloc::runtime {

class MappedPages {
 public:
  MappedPages() = default;
  // Throws std::bad_alloc.
  explicit MappedPages(std::size_t pages) : words_((pages + kBits - 1) / kBits) {}

  void Set(std::size_t first, std::size_t count) noexcept {
    ForEachWord(first, count, [](std::atomic_ref<std::uint64_t> word, std::uint64_t mask) { word.fetch_or(mask); });
  }
  void Clear(std::size_t first, std::size_t count) noexcept {
    ForEachWord(first, count, [](std::atomic_ref<std::uint64_t> word, std::uint64_t mask) { word.fetch_and(~mask); });
  }
  bool Has(std::size_t page) noexcept { return (Word(page / kBits) >> page % kBits & 1) != 0; }

  // visit(first, count) for each run of set bits.
  template <typename Visit>
  void ForEachRun(Visit visit) noexcept {
    const std::size_t pages = words_.size() * kBits;
    for (std::size_t page = 0; page < pages;) {
      const std::uint64_t rest = Word(page / kBits) >> page % kBits;
      if (rest == 0) {
        page = (page / kBits + 1) * kBits;
        continue;
      }
      const std::size_t first = page + static_cast<std::size_t>(std::countr_zero(rest));
      std::size_t left = 0, ones = 0;
      page = first;
      do {
        left = kBits - page % kBits;
        ones = static_cast<std::size_t>(std::countr_one(Word(page / kBits) >> page % kBits));
        page += ones;
      } while (ones == left && page < pages);
      if (page != first) visit(first, page - first);  // nothing, if the bit was cleared meanwhile
    }
  }

 private:
  static constexpr std::size_t kBits = 64;

  std::uint64_t Word(std::size_t i) noexcept { return std::atomic_ref(words_[i]).load(); }

  template <typename Change>
  void ForEachWord(std::size_t first, std::size_t count, Change change) noexcept {
    while (count != 0) {
      const std::size_t bit = first % kBits;
      const std::size_t here = std::min(count, kBits - bit);
      const std::uint64_t mask = (here == kBits ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1) << bit;
      change(std::atomic_ref(words_[first / kBits]), mask);
      first += here;
      count -= here;
    }
  }

  LazyArray<std::uint64_t> words_;
};

}  // namespace stalloc::runtime
