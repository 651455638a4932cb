// FreeHistory: how often each page has been free when a view was to be changed.
//
// A program whose iterations differ leaves other pages free each time, but not at random: some are free almost always,
// others now and then. A view that is made of the former lacks the fewest when it is wanted next.
//
// Not thread-safe; allocates only in its constructor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/lazy_array.h"
#include "runtime/pages/page_store.h"

namespace stalloc::runtime {

class FreeHistory {
 public:
  // Of pages [0, page_limit), none of which has been seen free. Throws std::bad_alloc.
  explicit FreeHistory(std::size_t page_limit) : pages_(page_limit) {}

  // A view is to be changed once more. `free`: the pages that are free, each once; all others are not.
  void Note(std::span<const PageNumber> free) noexcept;

  // In how many of those times it was free, from 0 to 1, each counting an eighth less than the one after it.
  float Share(PageNumber page) const noexcept;

 private:
  struct Page {
    float share = 0.0F;      // when it was last free, with that time
    std::uint32_t last = 0;  // the number of that time
  };

  LazyArray<Page> pages_;
  std::uint32_t times_ = 0;
};

}  // namespace stalloc::runtime
