// The part of DeviceMemory that gives memory back: views that nothing lives in, and idle pages. No driver call is made
// under the lock.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/capture.h"
#include "runtime/device_memory.h"

namespace stalloc::runtime {

namespace {

// Aliases kept for views that nothing lives in: beyond this many pages the least recently used are unmapped.
constexpr std::uint64_t kMaxViewPages = std::uint64_t{1} << 18;

}  // namespace

void DeviceMemory::EvictViews() {
  {
    std::lock_guard lock(mutex_);
    if (views_->mapped_pages() <= kMaxViewPages) return;
  }
  // Work that was queued before a view's last block was freed may still use its addresses.
  if (!SynchroniseAll()) return;
  std::vector<std::pair<std::size_t, std::size_t>> unmapped;  // offset, pages
  {
    std::lock_guard lock(mutex_);
    while (views_->mapped_pages() > kMaxViewPages / 2) {
      const ViewIndex view = views_->LeastRecentlyUsed();
      if (view == kNoView) break;
      unmapped.emplace_back((*views_)[view].offset_bytes, (*views_)[view].pages.size());
      views_->Drop(view);
    }
  }
  for (const auto& [offset, pages] : unmapped) pages_.UnmapView(offset, pages);
  std::lock_guard lock(mutex_);
  for (const auto& [offset, pages] : unmapped) views_->ReturnAddresses(offset, pages);
}

std::uint64_t DeviceMemory::Trim(std::uint64_t keep_bytes) { return GiveBackIdle(keep_bytes, 0); }

std::uint64_t DeviceMemory::GiveBackIdle(std::uint64_t keep_bytes, PageNumber from) {
  RelaxedCapture relaxed(driver_);
  FinishDeferred();
  RecordMarkers();
  struct Rooms {
    PageNumber first, count;
  };
  struct View {
    std::size_t offset_bytes;
    std::vector<PageNumber> pages;
    Granule head;
  };
  std::vector<Rooms> taken;
  std::vector<View> dropped;
  std::optional<CUstream> sole;
  {
    std::lock_guard lock(mutex_);
    Sweep();
    std::uint64_t idle = counters_.reserved_bytes - std::min(counters_.reserved_bytes, counters_.used_bytes);
    if (idle <= keep_bytes) return 0;
    std::vector<Run> rooms;
    space_->VisitRuns([&](Run, Fence fence) { return search_->Usable(kNoStream, fence, MemorySearch::Waits::kNo); },
                      [&](Run run) { rooms.push_back(run); });
    // From the top down, so that what is kept is dense.
    for (auto room = rooms.rbegin(); room != rooms.rend() && idle > keep_bytes; ++room) {
      const PageNumber first = std::max(from, (room->begin + kPageGranules - 1) / kPageGranules);
      PageNumber last = room->end / kPageGranules;
      PageNumber begin = last;
      while (begin > first && idle >= keep_bytes + kPageBytes) --begin, idle -= kPageBytes;
      if (begin >= last) continue;
      // A view that something lives in cannot go, nor can the pages behind the rest of it.
      bool held = false;
      for (const ViewIndex view : views_->Mapping(begin, last - begin)) held = held || (*views_)[view].live_blocks != 0;
      if (held) continue;
      for (const ViewIndex view : views_->Mapping(begin, last - begin)) {
        dropped.push_back({(*views_)[view].offset_bytes, (*views_)[view].pages, (*views_)[view].head});
        if (plan_)
          for (BlockPlace& slot : plan_->slots)
            if (slot.view == view) slot.view = kNoView;  // mapped again when it is next asked for
        views_->Drop(view);
      }
      space_->Claim({begin * kPageGranules, last * kPageGranules});
      taken.push_back({begin, last - begin});
    }
    // With a single stream no fences are kept: its work must be known to have executed.
    if (!multi_stream_ && first_stream_ != kNoStream) sole = streams_.HandleOf(first_stream_);
  }
  if (taken.empty()) return 0;
  bool executed = !sole || (!Captures(driver_, *sole) && driver_.cuStreamQuery(*sole) == CUDA_SUCCESS);
  // Pending work may still use the views that were dropped, through blocks freed earlier: wait rather than unmap under
  // it.
  if (!dropped.empty()) executed = SynchroniseAll();
  std::uint64_t given_back = 0;
  if (executed) {
    for (const View& view : dropped) pages_.UnmapView(view.offset_bytes, view.pages.size());
    for (const Rooms& room : taken) {
      pages_.Shrink(room.first, room.count);
      given_back += std::uint64_t{room.count} * kPageBytes;
    }
  }
  std::lock_guard lock(mutex_);
  for (View& view : dropped) {
    if (executed) {
      views_->ReturnAddresses(view.offset_bytes, view.pages.size());
    } else {
      views_->Add(view.offset_bytes, std::move(view.pages), view.head);
    }
  }
  for (const Rooms& room : taken)
    space_->Release({room.first * kPageGranules, (room.first + room.count) * kPageGranules},
                    executed ? Fence{kAbsent, 0} : Fence{});
  counters_.reserved_bytes -= given_back;
  return given_back;
}

// All idle pages at or behind `first`: it takes a synchronisation, so not a few now and a few later.
void DeviceMemory::GiveBackFrom(PageNumber first) {
  if (SynchroniseAll()) GiveBackIdle(0, first);
}

std::uint64_t DeviceMemory::ReleaseIdle() {
  SynchroniseAll();
  return Trim(0);
}

}  // namespace stalloc::runtime
