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

// Pages [first, last).
struct PageRun {
  PageNumber first, last;
};

// The parts of `room` in which none of the plans has a slot.
void AppendUntouched(PageRun room, const PlanInForce* plan, const PlanInForce* next, std::vector<PageRun>* parts) {
  const auto touches = [](const PlanInForce* by, PageNumber page) {
    return by != nullptr && page < by->touched.size() && by->touched[page];
  };
  PageNumber begin = room.first;
  for (PageNumber page = room.first; page <= room.last; ++page) {
    if (page < room.last && !touches(plan, page) && !touches(next, page)) continue;
    if (begin < page) parts->push_back({begin, page});
    begin = page + 1;
  }
}

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

std::uint64_t DeviceMemory::Trim(std::uint64_t keep_bytes) { return GiveBackIdle(keep_bytes, Spare::kNothing); }

std::uint64_t DeviceMemory::GiveBackIdle(std::uint64_t keep_bytes, Spare spare) {
  RelaxedCapture relaxed(driver_);
  FinishDeferred();
  RecordMarkers();
  struct Rooms {
    PageNumber first, count;
  };
  const bool wait = spare == Spare::kPlanned;
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
    std::vector<PageRun> rooms;
    space_->VisitRuns(
        [&](Run, Fence fence) { return search_->Usable(kNoStream, fence, MemorySearch::Waits::kNo); },
        [&](Run run) {
          const PageRun whole = {(run.begin + kPageGranules - 1) / kPageGranules, run.end / kPageGranules};
          if (spare == Spare::kNothing) {
            rooms.push_back(whole);
          } else {
            AppendUntouched(whole, plan_.get(), next_plan_.get(), &rooms);
          }
        });
    // From the top down, so that what is kept is dense.
    for (auto room = rooms.rbegin(); room != rooms.rend() && idle > keep_bytes; ++room) {
      const PageNumber first = room->first;
      const PageNumber last = room->last;
      PageNumber begin = last;
      while (begin > first && idle >= keep_bytes + kPageBytes) --begin, idle -= kPageBytes;
      if (begin >= last) continue;
      // A view that something lives in cannot go, nor can the pages behind the rest of it.
      bool held = false;
      for (const ViewIndex view : views_->Mapping(begin, last - begin)) held = held || (*views_)[view].live_blocks != 0;
      if (held) continue;
      for (const ViewIndex view : views_->Mapping(begin, last - begin)) {
        dropped.push_back({(*views_)[view].offset_bytes, (*views_)[view].pages, (*views_)[view].head});
        const auto forget = [&](const std::shared_ptr<PlanInForce>& plan) {
          if (!plan) return;
          for (BlockPlace& slot : plan->slots)
            if (slot.view == view) slot.view = kNoView;  // mapped again when it is next asked for
        };
        forget(plan_);
        forget(next_plan_);
        for (const OtherKind& kind : other_kinds_) forget(kind.plan);
        views_->Drop(view);
      }
      space_->Claim({begin * kPageGranules, last * kPageGranules});
      taken.push_back({begin, last - begin});
    }
    // With a single stream no fences are kept: its work must be known to have executed.
    if (!multi_stream_ && first_stream_ != kNoStream) sole = streams_.HandleOf(first_stream_);
  }
  if (taken.empty()) return 0;
  bool executed = !sole || (!wait && !Captures(driver_, *sole) && driver_.cuStreamQuery(*sole) == CUDA_SUCCESS);
  // Pending work may still use the views that were dropped, through blocks freed earlier: wait rather than unmap under
  // it.
  if (!dropped.empty() || (wait && !executed)) executed = SynchroniseAll();
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

std::uint64_t DeviceMemory::ReleaseIdle() {
  SynchroniseAll();
  return Trim(0);
}

std::uint64_t DeviceMemory::ReleaseUnplanned() {
  {
    std::lock_guard lock(mutex_);
    for (const PlanInForce* plan : {plan_.get(), next_plan_.get()})
      if (plan != nullptr && plan->persistent_left.load(std::memory_order_relaxed) != 0) return 0;
  }
  return GiveBackIdle(0, Spare::kPlanned);
}

std::optional<DeviceMemory::Room> DeviceMemory::TakeRoom() {
  RelaxedCapture relaxed(driver_);
  std::size_t free_bytes = 0;
  std::size_t device_bytes = 0;
  if (driver_.cuMemGetInfo(&free_bytes, &device_bytes) != CUDA_SUCCESS) return std::nullopt;
  const std::uint64_t refused_bytes = refused_bytes_.exchange(0, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  return Room{counters_.reserved_bytes, free_bytes, device_bytes, policy_.limit_bytes, refused_bytes};
}

void DeviceMemory::NoteRefused(std::uint64_t bytes) noexcept {
  std::uint64_t known = refused_bytes_.load(std::memory_order_relaxed);
  while (known < bytes && !refused_bytes_.compare_exchange_weak(known, bytes, std::memory_order_relaxed)) {
  }
}

}  // namespace stalloc::runtime
