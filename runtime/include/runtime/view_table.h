// ViewTable: stitched views, kept for when their pages are free again.
//
// A view is a second mapping of pages of the base range, in any order, at contiguous addresses. It owns nothing: who
// may use its pages is decided by the free space alone, so any number of views may name the same page. A view serves a
// request from its first page on, and may be longer than the request.
//
// Called under the device's lock; mapping and unmapping is the caller's (PageStore), without it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "runtime/page_store.h"

namespace stalloc::runtime {

using ViewIndex = std::uint32_t;
inline constexpr ViewIndex kNoView = ~ViewIndex{0};

class ViewTable {
 public:
  struct View {
    std::size_t offset_bytes = 0;  // in the view range
    std::vector<PageNumber> pages{};
    Granule head = 0;           // where in the first page its blocks begin
    std::uint32_t witness = 0;  // the page that was busy when the view was last refused: looked at first
    std::uint32_t live_blocks = 0;
    std::uint64_t last_used = 0;
    Fence last_free{};                 // when its last block was freed: until that has executed its addresses stay
    std::vector<PageNumber> former{};  // what `pages` were before the last exchange; empty: there was none
    bool changing = false;             // some of its pages are being exchanged: not to be looked at
    bool pinned = false;               // the plan in force has a slot here
  };

  explicit ViewTable(std::size_t range_bytes) : range_bytes_(range_bytes) {}

  // Addresses for a view of `page_count` pages; nothing when the range is used up.
  std::optional<std::size_t> TakeAddresses(std::size_t page_count);
  void ReturnAddresses(std::size_t offset_bytes, std::size_t page_count);

  ViewIndex Add(std::size_t offset_bytes, std::vector<PageNumber> pages, Granule head);
  // Forgets a view. Its addresses stay taken until the caller has unmapped them and calls ReturnAddresses.
  void Drop(ViewIndex view);

  // Counts views that went or began to change: who has noted one without the lock held looks for it again when this has
  // moved.
  std::uint64_t changes() const noexcept { return changes_; }
  void NoteChange() noexcept { ++changes_; }

  View& operator[](ViewIndex view) { return views_[view]; }
  const View& operator[](ViewIndex view) const { return views_[view]; }

  // A kept view that maps exactly these pages and whose blocks begin there, if there is one; none that is being
  // changed.
  ViewIndex FindExact(const std::vector<PageNumber>& pages, Granule head) const;

  // The first kept view, from `page_count` pages up to half as many again, that `usable(View&)` accepts.
  template <typename Usable>
  ViewIndex Find(std::size_t page_count, Usable usable) {
    const auto end = by_pages_.upper_bound(page_count + page_count / 2);
    for (auto it = by_pages_.lower_bound(page_count); it != end; ++it)
      if (!views_[it->second].changing && usable(views_[it->second])) return it->second;
    return kNoView;
  }

  // Calls visit(ViewIndex, View&) for the kept views of as many pages as Find looks at.
  template <typename Visit>
  void VisitSizes(std::size_t page_count, Visit visit) {
    const auto end = by_pages_.upper_bound(page_count + page_count / 2);
    for (auto it = by_pages_.lower_bound(page_count); it != end; ++it) visit(it->second, views_[it->second]);
  }

  // Views that map any of the pages [first, first + count).
  std::vector<ViewIndex> Mapping(PageNumber first, PageNumber count) const;

  std::uint64_t mapped_pages() const { return mapped_pages_; }
  std::size_t size() const { return by_pages_.size(); }
  // The view used least recently among those that nothing lives in and no plan pins.
  ViewIndex LeastRecentlyUsed() const;

 private:
  const std::size_t range_bytes_;
  std::size_t range_used_bytes_ = 0;
  std::map<std::size_t, std::vector<std::size_t>> returned_;  // page count -> offsets
  std::vector<View> views_;
  std::vector<ViewIndex> unused_;
  std::multimap<std::size_t, ViewIndex> by_pages_;
  std::uint64_t mapped_pages_ = 0;
  std::uint64_t changes_ = 0;
};

// How many pages a block touches that begins `head` granules behind the start of the first.
constexpr PageNumber PagesUnder(Granule head, Granule granules) noexcept {
  return (head + granules + kPageGranules - 1) / kPageGranules;
}

// The granules that such a block occupies in page k of its view: whole pages but for the first one's end and the last
// one's start.
inline Run GranulesInPage(PageNumber page, std::size_t k, Granule head, Granule granules) noexcept {
  const Granule begin = page * kPageGranules;
  const Granule rest = head + granules - static_cast<Granule>(k) * kPageGranules;
  return {k == 0 ? begin + head : begin, begin + (rest < kPageGranules ? rest : kPageGranules)};
}

}  // namespace stalloc::runtime
