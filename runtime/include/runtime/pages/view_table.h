// ViewTable: stitched views, kept for when their pages are free again.
//
// A view is a second mapping of pages of the base range, in any order, at contiguous addresses. It owns nothing: who
// may use its pages is decided by the free space alone, so any number of views may name the same page. A view serves a
// request from its first page on, and may be longer than the request. Single pages of it may be exchanged for others,
// and pages appended, for there are addresses behind it: then a request that is a little larger than what came before
// costs the mapping of what it has more.
//
// Called under the device's lock; mapping and unmapping is the caller's (PageStore), without it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "runtime/pages/page_store.h"

namespace stalloc::runtime {

using ViewIndex = std::uint32_t;
inline constexpr ViewIndex kNoView = ~ViewIndex{0};

class ViewTable {
 public:
  struct View {
    std::size_t offset_bytes = 0;  // in the view range
    std::vector<PageNumber> pages{};
    std::size_t room_pages = 0;  // as many as there are addresses for (a copy of what is known of its offset)
    Granule head = 0;            // where in the first page its blocks begin
    std::uint32_t witness = 0;   // the page that was busy when the view was last refused: looked at first
    std::uint32_t live_blocks = 0;
    std::uint64_t last_used = 0;
    Fence last_free{};                 // when its last block was freed: until that has executed its addresses stay
    std::vector<PageNumber> former{};  // what `pages` were before the last exchange; empty: there was none
    // What exchanges have cost of which each gave it back pages that it had before, those since the last that did not;
    // in pages of a new view.
    std::size_t turns_cost = 0;
    bool changing = false;  // some of its pages are being exchanged: not to be looked at
    bool pinned = false;    // the plan in force has a slot here
  };

  explicit ViewTable(std::size_t range_bytes) : range_bytes_(range_bytes) {}

  // Addresses for a view of `page_count` pages, and of eight pages or more for an eighth more behind it; nothing when
  // the range is used up.
  std::optional<std::size_t> TakeAddresses(std::size_t page_count);
  void ReturnAddresses(std::size_t offset_bytes) noexcept;

  ViewIndex Add(std::size_t offset_bytes, std::vector<PageNumber> pages, Granule head);
  // A view that was dropped, but has stayed mapped. Nobody has it in use or is changing it.
  ViewIndex AddAgain(View view);
  // The view maps other pages from now on: no fewer, and no more than it has room for. What they were before becomes
  // `former`. The driver has mapped them by then, so this cannot fail.
  void SetPages(ViewIndex view, std::vector<PageNumber> pages, std::size_t turns_cost) noexcept;
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

  // Calls visit(ViewIndex, const View&) for the kept views of as many pages as Find looks at, and for those that lack
  // at most `missing` of `page_count` pages and have room for them.
  template <typename Visit>
  void VisitSizes(std::size_t page_count, std::size_t missing, Visit visit) const {
    const auto end = by_pages_.upper_bound(page_count + page_count / 2);
    for (auto it = by_pages_.lower_bound(page_count - missing); it != end; ++it)
      if (const View& view = views_[it->second]; view.room_pages >= page_count) visit(it->second, view);
  }

  // Views that map any of the pages [first, first + count).
  std::vector<ViewIndex> Mapping(PageNumber first, PageNumber count) const;

  std::uint64_t mapped_pages() const { return mapped_pages_; }
  std::size_t size() const { return by_pages_.size(); }
  // The views used least recently among those that nothing lives in, no plan pins and `passes(const View&)` accepts, as
  // many as map at least `pages` pages, oldest first.
  template <typename Passes>
  std::vector<ViewIndex> LeastRecentlyUsed(std::uint64_t pages, Passes passes) const {
    std::vector<ViewIndex> oldest;
    const auto later = [&](ViewIndex a, ViewIndex b) { return views_[a].last_used > views_[b].last_used; };
    for (const auto& [page_count, index] : by_pages_) {
      const View& view = views_[index];
      if (view.live_blocks == 0 && !view.pinned && !view.changing && passes(view)) oldest.push_back(index);
    }
    // A heap: of thousands, a few are wanted.
    std::make_heap(oldest.begin(), oldest.end(), later);
    auto end = oldest.end();
    for (std::uint64_t found = 0; end != oldest.begin() && found < pages; found += views_[*end].pages.size())
      std::pop_heap(oldest.begin(), end--, later);
    return {oldest.rbegin(), std::make_reverse_iterator(end)};
  }

 private:
  std::multimap<std::size_t, ViewIndex>::iterator Listed(ViewIndex view) noexcept;

  void ReturnRange(std::size_t offset_bytes, std::size_t pages);
  void TryToReturnRange(std::size_t offset_bytes, std::size_t pages) noexcept;

  const std::size_t range_bytes_;
  std::size_t range_used_bytes_ = 0;
  std::map<std::size_t, std::size_t> room_pages_;  // of all addresses that are taken, by offset
  // Addresses below range_used_bytes_ that are not taken, neighbours as one: offset -> pages, and (pages, offset).
  std::map<std::size_t, std::size_t> returned_;
  std::set<std::pair<std::size_t, std::size_t>> returned_by_size_;
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
