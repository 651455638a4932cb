#include "runtime/pages/view_table.h"

#include <algorithm>
#include <bit>
#include <iterator>
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
  if (const auto found = returned_by_size_.lower_bound({room_pages, 0}); found != returned_by_size_.end()) {
    const auto [pages, offset] = *found;
    room_pages_.emplace(offset, room_pages);
    returned_by_size_.erase(found);
    returned_.erase(offset);
    if (pages > room_pages) TryToReturnRange(offset + room_pages * kPageBytes, pages - room_pages);
    return offset;
  }
  if (range_used_bytes_ + room_pages * kPageBytes > range_bytes_) return std::nullopt;
  const std::size_t offset = range_used_bytes_;
  room_pages_.emplace(offset, room_pages);
  range_used_bytes_ += room_pages * kPageBytes;
  return offset;
}

void ViewTable::ReturnAddresses(std::size_t offset_bytes) noexcept {
  const auto taken = room_pages_.find(offset_bytes);
  TryToReturnRange(offset_bytes, taken->second);
  room_pages_.erase(taken);
}

// Without host memory the addresses are not used again. There are many times what is mapped.
void ViewTable::TryToReturnRange(std::size_t offset_bytes, std::size_t pages) noexcept {
  try {
    ReturnRange(offset_bytes, pages);
  } catch (const std::bad_alloc&) {
  }
}

void ViewTable::ReturnRange(std::size_t offset_bytes, std::size_t pages) {
  auto behind = returned_.upper_bound(offset_bytes);
  if (behind != returned_.begin()) {
    const auto before = std::prev(behind);
    if (before->first + before->second * kPageBytes == offset_bytes) {
      offset_bytes = before->first;
      pages += before->second;
      returned_by_size_.erase({before->second, before->first});
      returned_.erase(before);
    }
  }
  if (behind != returned_.end() && offset_bytes + pages * kPageBytes == behind->first) {
    pages += behind->second;
    returned_by_size_.erase({behind->second, behind->first});
    returned_.erase(behind);
  }
  returned_by_size_.emplace(pages, offset_bytes);
  try {
    returned_.emplace(offset_bytes, pages);
  } catch (const std::bad_alloc&) {
    returned_by_size_.erase({pages, offset_bytes});
    throw;
  }
}

ViewIndex ViewTable::Add(std::size_t offset_bytes, std::vector<PageNumber> pages, Granule head) {
  if (unused_.empty()) {
    // So that a view can be dropped whatever happens.
    if (unused_.capacity() <= views_.size()) unused_.reserve(2 * views_.size() + 16);
    views_.emplace_back();
    unused_.push_back(static_cast<ViewIndex>(views_.size() - 1));
  }
  const ViewIndex index = unused_.back();
  by_pages_.emplace(pages.size(), index);
  unused_.pop_back();
  mapped_pages_ += pages.size();
  views_[index] = View{.offset_bytes = offset_bytes,
                       .pages = std::move(pages),
                       .room_pages = room_pages_.at(offset_bytes),
                       .head = head};
  return index;
}

ViewIndex ViewTable::AddAgain(View view) {
  const ViewIndex index = Add(view.offset_bytes, std::move(view.pages), view.head);
  View& added = views_[index];
  added.last_used = view.last_used;
  added.last_free = view.last_free;  // work that was pending when it was dropped may be pending still
  added.former = std::move(view.former);
  added.turns_cost = view.turns_cost;
  return index;
}

// Where it is in by_pages_.
std::multimap<std::size_t, ViewIndex>::iterator ViewTable::Listed(ViewIndex view) noexcept {
  const auto [first, last] = by_pages_.equal_range(views_[view].pages.size());
  return std::find_if(first, last, [view](const auto& listed) { return listed.second == view; });
}

void ViewTable::SetPages(ViewIndex view, std::vector<PageNumber> pages, std::size_t turns_cost) noexcept {
  View& changed = views_[view];
  auto listed = by_pages_.extract(Listed(view));
  mapped_pages_ += pages.size() - changed.pages.size();
  listed.key() = pages.size();
  changed.former = std::exchange(changed.pages, std::move(pages));
  changed.turns_cost = turns_cost;
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
