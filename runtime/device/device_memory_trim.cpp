// The part of DeviceMemory that gives memory back: views that nothing lives in, and idle pages. No driver call is made
// under the lock.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/device/capture.h"
#include "runtime/device/device_memory.h"

namespace stalloc::runtime {

namespace {

// Views are unmapped in the background from this share of MemoryPolicy::view_pages on, so that a request hardly ever
// has to: it takes 15 to 20 us a page, and a thread that launches kernels meanwhile does not notice (H200).
constexpr double kTidyFrom = 0.875;

// So much at once: a few milliseconds, in which somebody who wants to map has to wait for the driver.
constexpr std::uint64_t kUnmappedAtOnce = 256;

// Pages [first, last).
struct PageRun {
  PageNumber first, last;
};

// The parts of `room` without pages of which stays(page) is true.
template <typename Stays>
void AppendWithout(PageRun room, Stays stays, std::vector<PageRun>* parts) {
  PageNumber begin = room.first;
  for (PageNumber page = room.first; page <= room.last; ++page) {
    if (page < room.last && !stays(page)) continue;
    if (begin < page) parts->push_back({begin, page});
    begin = page + 1;
  }
}

}  // namespace

// Unmaps and forgets the views used least recently, until at most `keep_pages` are mapped or `most_pages` have gone.
// Those that work may still use, queued before their last block was freed, stay.
void DeviceMemory::UnmapViews(std::uint64_t keep_pages, std::uint64_t most_pages) {
  std::vector<ViewIndex> oldest;
  std::vector<std::pair<std::size_t, std::size_t>> mapped;  // offset, pages
  {
    std::lock_guard lock(mutex_);
    if (views_->mapped_pages() <= keep_pages) return;
    const std::uint64_t wanted = std::min(views_->mapped_pages() - keep_pages, most_pages);
    oldest = views_->LeastRecentlyUsed(wanted,
                                       [&](const ViewTable::View& view) { return streams_.Executed(view.last_free); });
    if (oldest.empty()) return;
    mapped.reserve(oldest.size());
    for (const ViewIndex index : oldest) {
      ViewTable::View& view = (*views_)[index];
      mapped.emplace_back(view.offset_bytes, view.pages.size());
      // Known as long as it is mapped, so that nobody gives its pages back to the driver meanwhile.
      view.changing = true;
      views_->NoteChange();
      plans_->Forget(index);
    }
  }
  RelaxedCapture relaxed(driver_);
  for (const auto& [offset, pages] : mapped) pages_.UnmapView(offset, pages);
  std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < oldest.size(); ++i) {
    views_->Drop(oldest[i]);
    views_->ReturnAddresses(mapped[i].first);
  }
}

void DeviceMemory::TidyViews() {
  UnmapViews(static_cast<std::uint64_t>(static_cast<double>(view_pages_) * kTidyFrom), kUnmappedAtOnce);
}

// Nobody has tidied up, or not fast enough.
void DeviceMemory::EvictViews() {
  UnmapViews(view_pages_, kUnmappedAtOnce);
  {
    std::lock_guard lock(mutex_);
    if (views_->mapped_pages() <= 2 * view_pages_) return;
  }
  if (SynchroniseAll()) UnmapViews(view_pages_, ~std::uint64_t{0});
}

std::uint64_t DeviceMemory::Trim(std::uint64_t keep_bytes) { return GiveBackIdle(keep_bytes, Spare::kNothing); }

// Pages that were claimed to be given back, and the views that mapped them.
struct DeviceMemory::IdlePages {
  std::vector<PageRun> runs;
  std::vector<ViewTable::View> views;
  // With a single stream no fences are kept: its work must be known to have executed, up to here.
  std::optional<Fence> sole;
};

// Under the lock. From the top down, so that what is kept is dense.
DeviceMemory::IdlePages DeviceMemory::ClaimIdle(std::uint64_t keep_bytes, Spare spare) {
  IdlePages claimed;
  std::uint64_t idle = counters_.reserved_bytes - std::min(counters_.reserved_bytes, counters_.used_bytes);
  if (idle <= keep_bytes) return claimed;
  std::vector<bool> behind_views(pages_.page_limit());
  MarkBehindViews(&behind_views);
  const auto stays = [&](PageNumber page) {
    return behind_views[page] || (spare == Spare::kPlanned && plans_->Touches(page));
  };
  std::vector<PageRun> rooms;
  space_->VisitRuns(
      [&](Run, Fence fence) { return search_->Usable(kNoStream, fence, MemorySearch::Waits::kNo); },
      [&](Run run) {
        AppendWithout({(run.begin + kPageGranules - 1) / kPageGranules, run.end / kPageGranules}, stays, &rooms);
      });
  claimed.runs.reserve(rooms.size());
  for (auto room = rooms.rbegin(); room != rooms.rend() && idle >= keep_bytes + kPageBytes; ++room) {
    const std::uint64_t most = std::min<std::uint64_t>(room->last - room->first, (idle - keep_bytes) / kPageBytes);
    const PageRun run = {room->last - static_cast<PageNumber>(most), room->last};
    idle -= most * kPageBytes;
    try {
      for (const ViewIndex view : views_->Mapping(run.first, run.last - run.first)) {
        claimed.views.push_back((*views_)[view]);
        DropView(view);
      }
    } catch (const std::bad_alloc&) {  // what is claimed so far is given back
      break;
    }
    space_->Claim({run.first * kPageGranules, run.last * kPageGranules});
    claimed.runs.push_back(run);
  }
  if (!claimed.runs.empty()) ++giving_back_;
  if (!multi_stream_ && first_stream_ != kNoStream && !streams_.Executed(streams_.Here(first_stream_)))
    claimed.sole = streams_.Here(first_stream_);
  return claimed;
}

// Under the lock.
void DeviceMemory::DropView(ViewIndex view) {
  plans_->Forget(view);
  views_->Drop(view);
}

// Without the lock. Has all work executed that may use these pages?
bool DeviceMemory::AreExecuted(const IdlePages& idle, Spare spare) {
  const bool wait = spare == Spare::kPlanned;
  const auto is_idle = [&](Fence up_to) {
    NamedStream stream;
    std::optional<HandlesInUse::Use> use;
    {
      std::lock_guard lock(mutex_);
      if (streams_.Executed(up_to)) return true;
      if (streams_.Retired(up_to.stream)) return false;
      stream = NameOf(up_to.stream);
      use.emplace(in_use_, streams_.ContextOf(up_to.stream), stream.handle);
    }
    const StreamScope scope(driver_, stream);
    return scope.names() && !Captures(driver_, stream.handle) && driver_.cuStreamQuery(stream.handle) == CUDA_SUCCESS;
  };
  const bool executed = !idle.sole || (!wait && is_idle(*idle.sole));
  // Pending work may still use the views that were dropped, through blocks freed earlier: wait rather than unmap under
  // it.
  return !idle.views.empty() || (wait && !executed) ? SynchroniseAll() : executed;
}

std::uint64_t DeviceMemory::GiveBackIdle(std::uint64_t keep_bytes, Spare spare) {
  RelaxedCapture relaxed(driver_);
  FinishDeferred();
  RecordMarkers();
  IdlePages idle;
  {
    std::lock_guard lock(mutex_);
    Sweep();
    idle = ClaimIdle(keep_bytes, spare);
  }
  if (idle.runs.empty()) return 0;
  const bool executed = AreExecuted(idle, spare);
  std::uint64_t given_back = 0;
  if (executed) {
    for (const ViewTable::View& view : idle.views) pages_.UnmapView(view.offset_bytes, view.pages.size());
    for (const PageRun& run : idle.runs) {
      pages_.Shrink(run.first, run.last - run.first);
      given_back += std::uint64_t{run.last - run.first} * kPageBytes;
    }
  }
  std::lock_guard lock(mutex_);
  --giving_back_;
  for (ViewTable::View& view : idle.views) {
    if (executed) {
      views_->ReturnAddresses(view.offset_bytes);
    } else {
      views_->AddAgain(std::move(view));
    }
  }
  // A second stream may have come meanwhile: what is not fenced by then is nobody's but the first one's.
  const Fence kept = idle.sole ? MemoryFence(*idle.sole) : Fence{};
  for (const PageRun& run : idle.runs)
    space_->Release({run.first * kPageGranules, run.last * kPageGranules}, executed ? Fence{kAbsent, 0} : kept);
  counters_.reserved_bytes -= given_back;
  counters_.returned_page_bytes += given_back;
  return given_back;
}

std::uint64_t DeviceMemory::ReleaseIdle() {
  SynchroniseAll();
  return Trim(0);
}

std::uint64_t DeviceMemory::ReleaseUnplanned() {
  {
    std::lock_guard lock(mutex_);
    if (plans_->AnySettling()) return 0;
  }
  return GiveBackIdle(0, Spare::kPlanned);
}

std::optional<MemoryPressure> DeviceMemory::TakePressure() {
  RelaxedCapture relaxed(driver_);
  std::size_t free_bytes = 0;
  std::size_t device_bytes = 0;
  if (driver_.cuMemGetInfo(&free_bytes, &device_bytes) != CUDA_SUCCESS) return std::nullopt;
  const std::uint64_t refused_bytes = refused_bytes_.exchange(0, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  return MemoryPressure{counters_.reserved_bytes, free_bytes, device_bytes, policy_.limit_bytes, refused_bytes};
}

void DeviceMemory::NoteRefused(std::uint64_t bytes) noexcept {
  std::uint64_t known = refused_bytes_.load(std::memory_order_relaxed);
  while (known < bytes && !refused_bytes_.compare_exchange_weak(known, bytes, std::memory_order_relaxed)) {
  }
  std::lock_guard lock(mutex_);
  budget_.MemoryIsShort();
  lifetime_rooms_.MemoryIsShort();
}

}  // namespace stalloc::runtime
