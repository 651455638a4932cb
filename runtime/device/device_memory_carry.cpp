// The part of DeviceMemory that carries a claim out with the driver: pages made, views mapped, streams made to wait.
// Nothing here holds the lock over a driver call; each step takes what it needs under the lock, acts, and publishes the
// outcome under it.
#include <algorithm>
#include <chrono>

#include "runtime/device/capture.h"
#include "runtime/device/device_memory.h"

namespace stalloc::runtime {

namespace {

// Before growing by this much in one request, the driver is asked whether it has it: cuDNN probes by asking for more
// than there is, and mapping page by page until it fails would take seconds.
constexpr PageNumber kAskBeforePages = 512;

}  // namespace

// Without host memory, as without the device's: the claim is undone.
CUresult DeviceMemory::Carry(Claim* claim, const Who& who) noexcept {
  try {
    return CarryAll(claim, who);
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

CUresult DeviceMemory::CarryAll(Claim* claim, const Who& who) {
  RelaxedCapture relaxed(driver_);
  if (CUresult result = CarryNewPages(claim); result != CUDA_SUCCESS) return result;
  if (claim->where.kind == Found::Kind::kPages)
    if (CUresult result = CarryView(claim); result != CUDA_SUCCESS) return result;
  if (claim->where.kind == Found::Kind::kExchange)
    if (CUresult result = CarryExchange(claim); result != CUDA_SUCCESS) return result;
  return claim->waits.empty() ? CUDA_SUCCESS : CarryWaits(claim, who);
}

std::uint64_t DeviceMemory::NowNs() const {
  if (policy_.clock_ns) return policy_.clock_ns();
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// Carry for a request that found no room, with what it costs put down: the time that stitching takes, and how long its
// stream stands still where it must wait.
CUresult DeviceMemory::CarryWithinBudget(Claim* claim, const Who& who) {
  const bool stitched = claim->where.kind == Found::Kind::kPages || claim->where.kind == Found::Kind::kExchange;
  // Growing is not what is to be saved, and it ends by itself. Waits are timed even when nothing more will be given for
  // them: the statistics tell how long they were, and two events at a wait cost next to nothing of what is waited.
  if (!budget_.automatic() || (!stitched && claim->waits.empty())) return Carry(claim, who);
  claim->timed = true;
  RelaxedCapture relaxed(driver_);  // asking for events and for memory must not end another stream's capture
  const std::uint64_t begun_ns = NowNs();
  const CUresult result = Carry(claim, who);
  const std::uint64_t now_ns = NowNs();
  std::uint64_t stalled_ns = 0;
  {
    const HandlesInUse::Use use(in_use_, nullptr);  // of the timer's events
    stalled_ns = stalls_.TakeStalledNs();
  }
  bool exceeded = false;
  bool wished = false;
  {
    std::lock_guard lock(mutex_);
    counters_.stalled_ns += stalled_ns;
    const CostWindow::Moment moment{
        .now_ns = now_ns, .allocated_bytes = counters_.allocated_bytes(), .peak_live_bytes = counters_.peak_live_bytes};
    lifetime_rooms_.Spent(stitched ? now_ns - begun_ns : 0, moment);
    if (lifetime_rooms_.unsettled()) budget_.Pause();
    exceeded = budget_.Spent(now_ns - begun_ns + stalled_ns, moment);
    wished = lifetime_rooms_.TakeWish();
  }
  if (exceeded || wished) HoldMoreIfAmple(exceeded, wished);
  return result;
}

// The time budget is exceeded, or LifetimeRooms wishes for a little more.
void DeviceMemory::HoldMoreIfAmple(bool exceeded, bool wished) {
  std::size_t free_bytes = 0;
  std::size_t device_bytes = 0;
  if (driver_.cuMemGetInfo(&free_bytes, &device_bytes) != CUDA_SUCCESS) return;
  const std::size_t spared = device_bytes / kSpareShare;
  if (free_bytes < spared) return;
  std::lock_guard lock(mutex_);
  const std::uint64_t may_hold = std::min(counters_.reserved_bytes + free_bytes - spared, policy_.limit_bytes);
  const double ample = static_cast<double>(may_hold) / static_cast<double>(counters_.peak_live_bytes);
  if (exceeded && ample >= budget_.growth() + TimeBudget::kStep && budget_.Raise(ample)) {
    lifetime_rooms_.NoteGrowth();
  } else if (wished && ample >= LifetimeRooms::kMoreGrowth) {
    lifetime_rooms_.HoldMore();
  }
}

CUresult DeviceMemory::CarryNewPages(Claim* claim) {
  PageNumber wanted = 0;
  for (const auto& pages : claim->new_pages) wanted += pages.count;
  if (wanted >= kAskBeforePages) {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    if (driver_.cuMemGetInfo(&free_bytes, &total_bytes) == CUDA_SUCCESS &&
        free_bytes < std::size_t{wanted} * kPageBytes)
      return CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (; claim->mapped_runs < claim->new_pages.size(); ++claim->mapped_runs) {
    const auto& pages = claim->new_pages[claim->mapped_runs];
    if (CUresult result = pages_.Grow(pages.first, pages.count); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::CarryView(Claim* claim) {
  std::optional<std::size_t> offset;
  {
    std::lock_guard lock(mutex_);
    offset = views_->TakeAddresses(claim->where.pages.size());
  }
  if (!offset) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = pages_.MapView(*offset, claim->where.pages);
  std::unique_lock lock(mutex_);
  if (result == CUDA_SUCCESS) {
    try {
      claim->where.view = views_->Add(*offset, claim->where.pages, claim->where.head);
    } catch (const std::bad_alloc&) {
      lock.unlock();
      pages_.UnmapView(*offset, claim->where.pages.size());
      lock.lock();
      result = CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  if (result != CUDA_SUCCESS) {
    views_->ReturnAddresses(*offset);
    return result;
  }
  ++(*views_)[claim->where.view].live_blocks;
  claim->where.kind = Found::Kind::kView;
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::CarryExchange(Claim* claim) {
  std::size_t offset = 0;
  std::size_t mapped_pages = 0;
  {
    std::lock_guard lock(mutex_);
    offset = (*views_)[claim->where.view].offset_bytes;
    mapped_pages = (*views_)[claim->where.view].pages.size();
  }
  const CUresult result = pages_.ExchangePages(offset, mapped_pages, claim->where.pages, claim->where.exchanged);
  std::lock_guard lock(mutex_);
  ViewTable::View& view = (*views_)[claim->where.view];
  view.changing = false;
  if (result != CUDA_SUCCESS) {
    DropView(claim->where.view);
    views_->ReturnAddresses(offset);
    claim->where.kind = Found::Kind::kPages;  // the pages are still claimed, the view is not there any more
    return result;
  }
  views_->SetPages(claim->where.view, std::move(claim->where.pages), claim->where.turns_cost);
  ++view.live_blocks;
  claim->where.kind = Found::Kind::kView;
  return CUDA_SUCCESS;
}

// Records an event behind all that has been freed on the fence's stream. nullopt: that stream cannot be named here, or
// is no more, or the driver refuses.
std::optional<StreamTable::Marker> DeviceMemory::RecordBehind(Fence fence) {
  StreamTable::Marker marker;
  NamedStream named;
  std::optional<HandlesInUse::Use> use;
  {
    std::lock_guard lock(mutex_);
    if (streams_.Retired(fence.stream)) return std::nullopt;
    named = NameOf(fence.stream);
    marker.context = streams_.ContextOf(fence.stream);
    marker.life = contexts_.LifeOf(marker.context);
    marker.stream = fence.stream;
    marker.position = streams_.Here(fence.stream).position;
    use.emplace(in_use_, marker.context, named.handle);
  }
  const StreamScope scope(driver_, named);
  if (!scope.names()) return std::nullopt;
  const Event event = NewEvent(marker.context, marker.life);
  if (event.event == nullptr) return std::nullopt;
  const CUresult result = driver_.cuEventRecord(event.event, named.handle);
  std::lock_guard lock(mutex_);
  if (result != CUDA_SUCCESS) return PutBack(event), std::nullopt;
  marker.event = event.event;
  PutBack(marker);
  return marker;
}

CUresult DeviceMemory::CarryWaits(Claim* claim, const Who& who) {
  const SpentTimer timer(spent(), Cause::kWaits);
  std::vector<Fence> fences;
  for (const auto& wait : claim->waits) {
    const Fence fence = wait.second;
    auto same = std::find_if(fences.begin(), fences.end(), [&](const Fence& f) { return f.stream == fence.stream; });
    if (same == fences.end()) {
      fences.push_back(fence);
    } else {
      same->position = std::max(same->position, fence.position);
    }
  }
  for (const Fence& fence : fences) {
    Fence reached = fence;
    CUevent event = nullptr;
    CUstream waiting = nullptr;
    bool timed = false;
    std::optional<HandlesInUse::Use> use;  // of the event that is waited for, from here to the wait
    {
      std::lock_guard lock(mutex_);
      if (streams_.Behind(who.effective, fence)) continue;
      use.emplace(in_use_, streams_.ContextOf(fence.stream));
      if (who.effective != kNoStream) waiting = streams_.HandleOf(who.stream);
      // What is done on the side may stand still a while without any loss. The timer's events are those of one context.
      timed = claim->timed && !contexts_.several() && streams_.IsBusiest(who.effective);
      // An event that lies behind the free already asks for less than one recorded now. It may pass and be recorded
      // again elsewhere before the wait is made: then what was to be waited for has executed.
      if (const StreamTable::Marker* marker = streams_.MarkerBehind(fence)) {
        event = marker->event;
        reached.position = marker->position;
      }
    }
    if (event == nullptr) {
      const std::optional<StreamTable::Marker> recorded = RecordBehind(fence);
      if (!recorded) {
        use.reset();
        if (!SynchroniseAll()) return CUDA_ERROR_NOT_READY;
        continue;
      }
      event = recorded->event;
      reached.position = recorded->position;
    }
    CUresult result = CUDA_SUCCESS;
    if (who.effective == kNoStream) {
      result = driver_.cuEventSynchronize(event);
    } else {
      const StallTimer::Pair stall = timed ? stalls_.Begin(waiting) : StallTimer::Pair{};
      result = driver_.cuStreamWaitEvent(waiting, event, 0);
      stalls_.End(stall, waiting);
    }
    if (result != CUDA_SUCCESS) return result;
    std::lock_guard lock(mutex_);
    ++counters_.waits_inserted;
    if (who.effective == kNoStream) {
      streams_.Pass(reached.stream, reached.position);
    } else {
      streams_.Order(who.effective, reached);
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace stalloc::runtime
