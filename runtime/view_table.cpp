#include "runtime/view_table.h"

#include <algorithm>

namespace stalloc::runtime {

std::optional<std::size_t> ViewTable::TakeAddresses(std::size_t page_count) {
  if (auto it = returned_.find(page_count); it != returned_.end() && !it->second.empty()) {
    const std::size_t offset = it->second.back();
    it->second.pop_back();
    return offset;
  }
  if (range_used_bytes_ + page_count * kPageBytes > range_bytes_) return std::nullopt;
  const std::size_t offset = range_used_bytes_;
  range_used_bytes_ += page_count * kPageBytes;
  return offset;
}

void ViewTable::ReturnAddresses(std::size_t offset_bytes, std::size_t page_count) {
  returned_[page_count].push_back(offset_bytes);
}

ViewIndex ViewTable::Add(std::size_t offset_bytes, std::vector<PageNumber> pages, Granule head) {
  ViewIndex index;
  if (!unused_.empty()) {
    index = unused_.back();
    unused_.pop_back();
  } else {
    index = static_cast<ViewIndex>(views_.size());
    views_.emplace_back();
  }
  mapped_pages_ += pages.size();
  by_pages_.emplace(pages.size(), index);
  views_[index] = View{.offset_bytes = offset_bytes, .pages = std::move(pages), .head = head};
  return index;
}

void ViewTable::Drop(ViewIndex view) {
  NoteChange();
  View& dropped = views_[view];
  auto [first, last] = by_pages_.equal_range(dropped.pages.size());
  for (auto it = first; it != last; ++it) {
    if (it->second == view) {
      by_pages_.erase(it);
      break;
    }
  }
  mapped_pages_ -= dropped.pages.size();
  dropped = View{};
  unused_.push_back(view);
}

ViewIndex ViewTable::FindExact(const std::vector<PageNumber>& pages, Granule head) const {
  auto [first, last] = by_pages_.equal_range(pages.size());
  for (auto it = first; it != last; ++it)
    if (const View& view = views_[it->second]; !view.changing && view.head == head && view.pages == pages)
      return it->second;
  return kNoView;
}

std::vector<ViewIndex> ViewTable::Mapping(PageNumber first, PageNumber count) const {
  std::vector<ViewIndex> found;
  for (const auto& [page_count, index] : by_pages_) {
    const auto& pages = views_[index].pages;
    if (std::any_of(pages.begin(), pages.end(), [&](PageNumber p) { return p - first < count; }))
      found.push_back(index);
  }
  return found;
}

ViewIndex ViewTable::LeastRecentlyUsed() const {
  ViewIndex oldest = kNoView;
  for (const auto& [page_count, index] : by_pages_) {
    const View& view = views_[index];
    const bool free = view.live_blocks == 0 && !view.pinned && !view.changing;
    if (free && (oldest == kNoView || view.last_used < views_[oldest].last_used)) oldest = index;
  }
  return oldest;
}

}  // namespace stalloc::runtime
