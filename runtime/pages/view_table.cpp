#include "runtime/pages/view_table.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace stalloc::runtime {

namespace {

// Addresses cost nothing, so that there is an eighth more of them than pages. Eight sizes an octave: what is returned
// serves the next view of about as many pages.
std::size_t RoomFor(std::size_t page_count) {
  const std::size_t step = std::max<std::size_t>(1, std::bit_floor(page_count) / 8);
  return (page_count + page_count / 8 + step - 1) / step * step;
}

}  // namespace

std::optional<std::size_t> ViewTable::TakeAddresses(std::size_t page_count) {
  const std::size_t room_pages = RoomFor(page_count);
  if (auto it = returned_.find(room_pages); it != returned_.end() && !it->second.empty()) {
    const std::size_t offset = it->second.back();
    it->second.pop_back();
    return offset;
  }
  if (range_used_bytes_ + room_pages * kPageBytes > range_bytes_) return std::nullopt;
  const std::size_t offset = range_used_bytes_;
  range_used_bytes_ += room_pages * kPageBytes;
  room_pages_.emplace(offset, room_pages);
  return offset;
}

void ViewTable::ReturnAddresses(std::size_t offset_bytes) {
  returned_[room_pages_.at(offset_bytes)].push_back(offset_bytes);
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
  views_[index] = View{.offset_bytes = offset_bytes,
                       .pages = std::move(pages),
                       .room_pages = room_pages_.at(offset_bytes),
                       .head = head};
  return index;
}

// Where it is in by_pages_.
std::multimap<std::size_t, ViewIndex>::iterator ViewTable::Listed(ViewIndex view) noexcept {
  const auto [first, last] = by_pages_.equal_range(views_[view].pages.size());
  return std::find_if(first, last, [view](const auto& listed) { return listed.second == view; });
}

void ViewTable::SetPages(ViewIndex view, std::vector<PageNumber> pages) noexcept {
  View& changed = views_[view];
  auto listed = by_pages_.extract(Listed(view));
  mapped_pages_ += pages.size() - changed.pages.size();
  listed.key() = pages.size();
  changed.former = std::exchange(changed.pages, std::move(pages));
  by_pages_.insert(std::move(listed));
}

void ViewTable::Drop(ViewIndex view) {
  NoteChange();
  mapped_pages_ -= views_[view].pages.size();
  by_pages_.erase(Listed(view));
  views_[view] = View{};
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

}  // namespace stalloc::runtime
