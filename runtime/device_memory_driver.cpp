// The part of DeviceMemory that asks the driver: mapping, waiting, markers, giving memory back. Nothing here holds the
// lock over a driver call; each step takes what it needs under the lock, acts, and publishes the outcome under it.
#include <algorithm>

#include "runtime/device_memory.h"
#include "runtime/log.h"

namespace stalloc::runtime {

namespace {

// Aliases kept for views that nothing lives in: beyond this many pages the least recently used are unmapped.
constexpr std::uint64_t kMaxViewPages = std::uint64_t{1} << 18;

// Before growing by this much in one request, the driver is asked whether it has it: cuDNN probes by asking for more
// than there is, and mapping page by page until it fails would take seconds.
constexpr PageNumber kAskBeforePages = 512;

// Calls that the runtime makes while some thread captures must not end that capture.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const DriverApi& driver)
      : driver_(driver), on_(DeviceMemory::captures_in_progress.load(std::memory_order_relaxed) != 0) {
    if (on_) driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~RelaxedCapture() {
    if (on_) driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const DriverApi& driver_;
  const bool on_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

bool Captures(const DriverApi& driver, CUstream stream) {
  if (DeviceMemory::captures_in_progress.load(std::memory_order_relaxed) == 0) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace

// --- Carrying out a claim
// ---------------------------------------------------------------------------------------------

CUresult DeviceMemory::Carry(Claim* claim, const Who& who) {
  RelaxedCapture relaxed(driver_);
  if (CUresult result = CarryNewPages(claim); result != CUDA_SUCCESS) return result;
  if (claim->where.kind == Found::Kind::kPages)
    if (CUresult result = CarryView(claim); result != CUDA_SUCCESS) return result;
  if (claim->where.kind == Found::Kind::kExchange)
    if (CUresult result = CarryExchange(claim); result != CUDA_SUCCESS) return result;
  return claim->waits.empty() ? CUDA_SUCCESS : CarryWaits(claim, who);
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
  const CUresult result = pages_.MapView(*offset, claim->where.pages);
  std::lock_guard lock(mutex_);
  if (result != CUDA_SUCCESS) {
    views_->ReturnAddresses(*offset, claim->where.pages.size());
    return result;
  }
  claim->where.view = views_->Add(*offset, std::move(claim->where.pages));
  claim->where.kind = Found::Kind::kView;
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::CarryExchange(Claim* claim) {
  std::size_t offset = 0;
  {
    std::lock_guard lock(mutex_);
    offset = (*views_)[claim->where.view].offset_bytes;
  }
  const CUresult result = pages_.ExchangePages(offset, claim->where.pages, claim->where.exchanged);
  std::lock_guard lock(mutex_);
  ViewTable::View& view = (*views_)[claim->where.view];
  view.changing = false;
  if (result != CUDA_SUCCESS) {
    const std::size_t count = view.pages.size();
    views_->Drop(claim->where.view);
    views_->ReturnAddresses(offset, count);
    return result;
  }
  view.former = std::move(view.pages);
  view.pages = claim->where.pages;
  claim->where.kind = Found::Kind::kView;
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::CarryWaits(Claim* claim, const Who& who) {
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
    CUevent event = nullptr;
    Fence reached = fence;
    CUstream waiting = nullptr;
    CUstream freed_on = nullptr;
    bool recorded = false;
    {
      std::lock_guard lock(mutex_);
      if (streams_.Behind(who.effective, fence)) continue;
      if (who.effective != kNoStream) waiting = streams_.HandleOf(who.stream);
      freed_on = streams_.HandleOf(fence.stream);
      if (streams_.Retired(fence.stream)) {
        const StreamTable::Marker* marker = streams_.LastMarker(fence.stream);
        if (marker == nullptr) continue;
        event = marker->event;
        recorded = true;
      } else {
        reached = streams_.Here(fence.stream);
      }
    }
    if (!recorded && freed_on == CU_STREAM_PER_THREAD) {
      // Another thread's default stream cannot be named from here.
      if (!SynchroniseAll()) return CUDA_ERROR_NOT_READY;
      continue;
    }
    if (!recorded) {
      event = NewEvent();
      if (event == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
      if (CUresult result = driver_.cuEventRecord(event, freed_on); result != CUDA_SUCCESS) return result;
    }
    const CUresult result =
        who.effective == kNoStream ? driver_.cuEventSynchronize(event) : driver_.cuStreamWaitEvent(waiting, event, 0);
    std::lock_guard lock(mutex_);
    if (!recorded) streams_.AddMarker({event, reached.stream, reached.position});
    if (result != CUDA_SUCCESS) return result;
    ++counters_.waits_inserted;
    if (who.effective == kNoStream) {
      streams_.Pass(reached.stream, reached.position);
    } else {
      streams_.Order(who.effective, reached);
    }
  }
  return CUDA_SUCCESS;
}

// --- Markers
// ----------------------------------------------------------------------------------------------------------

CUevent DeviceMemory::NewEvent() {
  {
    std::lock_guard lock(mutex_);
    if (!idle_events_.empty()) {
      const CUevent event = idle_events_.back();
      idle_events_.pop_back();
      return event;
    }
  }
  CUevent event = nullptr;
  return driver_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS ? event : nullptr;
}

void DeviceMemory::RecordMarker(StreamIndex stream) {
  CUstream handle = nullptr;
  Fence here;
  {
    std::lock_guard lock(mutex_);
    handle = streams_.HandleOf(stream);
    here = streams_.Here(stream);
  }
  if (Captures(driver_, handle)) return;
  if (driver_.cuStreamQuery(handle) == CUDA_SUCCESS) {  // idle: nothing to mark
    std::lock_guard lock(mutex_);
    streams_.Pass(here.stream, here.position);
    return;
  }
  const CUevent event = NewEvent();
  if (event == nullptr) return;
  const CUresult result = driver_.cuEventRecord(event, handle);
  std::lock_guard lock(mutex_);
  if (result != CUDA_SUCCESS) {
    idle_events_.push_back(event);
    return;
  }
  streams_.AddMarker({event, here.stream, here.position});
  ++counters_.markers_recorded;
}

void DeviceMemory::RecordMarkers() {
  RelaxedCapture relaxed(driver_);
  std::vector<StreamIndex> uncovered;
  {
    std::lock_guard lock(mutex_);
    streams_.Uncovered(&uncovered);
    // A per-thread default stream can be named by its own thread alone; its owner is not known here.
    std::erase_if(uncovered, [&](StreamIndex s) { return streams_.HandleOf(s) == CU_STREAM_PER_THREAD; });
  }
  for (const StreamIndex stream : uncovered) RecordMarker(stream);
  PollMarkers();
}

void DeviceMemory::PollMarkers() {
  RelaxedCapture relaxed(driver_);
  std::vector<StreamTable::Marker> markers;
  {
    std::lock_guard lock(mutex_);
    markers = streams_.TakeMarkers();
  }
  // Markers of a stream pass in order: the newest that has passed speaks for all before it.
  std::vector<bool> passed(markers.size(), false);
  std::vector<std::uint64_t> reached(kMaxStreams, 0);
  for (std::size_t i = markers.size(); i-- > 0;) {
    if (markers[i].position <= reached[markers[i].stream]) {
      passed[i] = true;
    } else if (driver_.cuEventQuery(markers[i].event) == CUDA_SUCCESS) {
      passed[i] = true;
      reached[markers[i].stream] = markers[i].position;
    }
  }
  std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < markers.size(); ++i) {
    if (passed[i]) {
      streams_.Pass(markers[i].stream, markers[i].position);
      idle_events_.push_back(markers[i].event);
    } else {
      streams_.AddMarker(markers[i]);
    }
  }
}

bool DeviceMemory::SynchroniseAll() {
  if (captures_in_progress.load(std::memory_order_relaxed) != 0) return false;
  std::vector<Fence> reached;
  {
    std::lock_guard lock(mutex_);
    for (StreamIndex s = 1; s <= streams_.count(); ++s) reached.push_back(streams_.Here(s));
  }
  if (driver_.cuCtxSynchronize() != CUDA_SUCCESS) return false;
  std::lock_guard lock(mutex_);
  for (const Fence& fence : reached) streams_.Pass(fence.stream, fence.position);
  return true;
}

void DeviceMemory::FinishDeferred() {
  std::vector<Deferred> deferred;
  {
    std::lock_guard lock(mutex_);
    if (deferred_.empty() || captures_in_progress.load(std::memory_order_relaxed) != 0) return;
    deferred.swap(deferred_);
  }
  const bool done = driver_.cuCtxSynchronize() == CUDA_SUCCESS;
  std::lock_guard lock(mutex_);
  for (const Deferred& d : deferred) {
    if (done) {
      ReleaseBlock(d.address, d.block, Fence{});
    } else {
      deferred_.push_back(d);
    }
  }
}

// --- Giving back
// ------------------------------------------------------------------------------------------------------

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

std::uint64_t DeviceMemory::Trim(std::uint64_t keep_bytes) {
  RelaxedCapture relaxed(driver_);
  FinishDeferred();
  RecordMarkers();
  struct Rooms {
    PageNumber first, count;
  };
  std::vector<Rooms> taken;
  std::vector<std::pair<std::size_t, std::size_t>> unmapped;
  std::vector<StreamIndex> sole;
  {
    std::lock_guard lock(mutex_);
    Sweep();
    std::uint64_t idle = counters_.reserved_bytes - std::min(counters_.reserved_bytes, counters_.used_bytes);
    if (idle <= keep_bytes) return 0;
    std::vector<Run> rooms;
    Run run{};
    auto close = [&] {
      if (run.length() != 0) rooms.push_back(run);
    };
    space_->VisitAll([&](Run fragment, Fence fence) {
      if (!search_->Usable(kNoStream, fence, MemorySearch::Waits::kNo)) return;
      if (fragment.begin == run.end) {
        run.end = fragment.end;
        return;
      }
      close();
      run = fragment;
    });
    close();
    // From the top down, so that what is kept is dense.
    for (auto room = rooms.rbegin(); room != rooms.rend() && idle > keep_bytes; ++room) {
      const PageNumber first = (room->begin + kPageGranules - 1) / kPageGranules;
      PageNumber last = room->end / kPageGranules;
      PageNumber begin = last;
      while (begin > first && idle >= keep_bytes + kPageBytes) --begin, idle -= kPageBytes;
      if (begin >= last) continue;
      // A view that something lives in cannot go, nor can the pages behind the rest of it.
      bool held = false;
      for (const ViewIndex view : views_->Mapping(begin, last - begin)) held = held || (*views_)[view].live_blocks != 0;
      if (held) continue;
      for (const ViewIndex view : views_->Mapping(begin, last - begin)) {
        unmapped.emplace_back((*views_)[view].offset_bytes, (*views_)[view].pages.size());
        if (plan_)
          for (BlockPlace& slot : plan_->slots)
            if (slot.view == view) slot.view = kNoView;  // mapped again when it is next asked for
        views_->Drop(view);
      }
      space_->Claim({begin * kPageGranules, last * kPageGranules});
      taken.push_back({begin, last - begin});
    }
    // With a single stream no fences are kept: its work must be known to have executed.
    if (!multi_stream_ && streams_.count() == 1) sole.push_back(1);
  }
  if (taken.empty()) return 0;
  bool executed = true;
  for (const StreamIndex stream : sole) {
    CUstream handle = nullptr;
    {
      std::lock_guard lock(mutex_);
      handle = streams_.HandleOf(stream);
    }
    executed = !Captures(driver_, handle) && driver_.cuStreamQuery(handle) == CUDA_SUCCESS;
  }
  // Pending work may still use the views that were dropped, through blocks freed earlier: wait rather than unmap under
  // it.
  if (!unmapped.empty()) executed = SynchroniseAll();
  std::uint64_t given_back = 0;
  if (executed) {
    for (const auto& [offset, pages] : unmapped) pages_.UnmapView(offset, pages);
    for (const Rooms& room : taken) {
      pages_.Shrink(room.first, room.count);
      given_back += std::uint64_t{room.count} * kPageBytes;
    }
  }
  std::lock_guard lock(mutex_);
  if (executed)
    for (const auto& [offset, pages] : unmapped) views_->ReturnAddresses(offset, pages);
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

// --- What the program tells about its streams
// -------------------------------------------------------------------------

void DeviceMemory::NoteStreamDestroyed(Order order) {
  StreamIndex stream = kNoStream;
  {
    std::lock_guard lock(mutex_);
    stream = streams_.FindExisting(order.stream, order.scope);
    if (stream == kNoStream) return;
    if (!multi_stream_) {
      space_->RefenceAll(kNoStream, streams_.Advance(stream));
      multi_stream_ = true;
    }
  }
  RecordMarker(stream);
  bool covered = false;
  {
    std::lock_guard lock(mutex_);
    covered = !streams_.NeedsMarker(stream, 1);
  }
  if (!covered) SynchroniseAll();
  std::lock_guard lock(mutex_);
  streams_.Retire(stream);
}

void DeviceMemory::NoteEventRecorded(CUevent event, Order order) {
  std::lock_guard lock(mutex_);
  if (multi_stream_) streams_.EventRecorded(event, streams_.FindExisting(order.stream, order.scope));
}

void DeviceMemory::NoteStreamWaits(Order order, CUevent event) {
  std::lock_guard lock(mutex_);
  if (multi_stream_) streams_.StreamWaits(streams_.FindExisting(order.stream, order.scope), event);
}

void DeviceMemory::NoteEventDestroyed(CUevent event) {
  std::lock_guard lock(mutex_);
  streams_.EventDestroyed(event);
}

// --- Plans
// ------------------------------------------------------------------------------------------------------------

bool DeviceMemory::Install(std::shared_ptr<PlanInForce> plan, When when) {
  if (plan) {
    for (BlockPlace& slot : plan->slots) {
      if (slot.kind != BlockPlace::Kind::kPages) continue;
      std::optional<std::size_t> offset;
      {
        std::lock_guard lock(mutex_);
        slot.view = views_->FindExact(slot.pages);
        if (slot.view != kNoView) {
          (*views_)[slot.view].pinned = true;
          continue;
        }
        // Pages that do not exist yet are mapped when the slot is first taken.
        bool exist = true;
        for (const PageNumber page : slot.pages)
          space_->VisitOverlapping({page * kPageGranules, (page + 1) * kPageGranules},
                                   [&](Run, Fence fence) { exist = exist && fence.stream != kAbsent; });
        if (!exist) continue;
        offset = views_->TakeAddresses(slot.pages.size());
      }
      if (!offset || pages_.MapView(*offset, slot.pages) != CUDA_SUCCESS) {
        std::lock_guard lock(mutex_);
        if (offset) views_->ReturnAddresses(*offset, slot.pages.size());
        return false;
      }
      std::lock_guard lock(mutex_);
      slot.view = views_->Add(*offset, slot.pages);
      (*views_)[slot.view].pinned = true;
    }
  }
  std::lock_guard lock(mutex_);
  if (next_plan_) retired_plans_.push_back(std::move(next_plan_));
  if (plan) {
    if (plan->prepared) plan->matcher.Install(std::move(plan->prepared), next_number_);
    ++counters_.plans_installed;
  }
  if (plan && when == When::kNextIteration) {
    next_plan_ = std::move(plan);
  } else {
    PutInForce(std::move(plan));
  }
  return true;
}

// Under the lock.
void DeviceMemory::PutInForce(std::shared_ptr<PlanInForce> plan) {
  if (plan_) {
    for (const BlockPlace& slot : plan_->slots)
      if (slot.view != kNoView) (*views_)[slot.view].pinned = false;
    retired_plans_.push_back(std::move(plan_));
  }
  plan_ = std::move(plan);
  if (plan_)
    for (const BlockPlace& slot : plan_->slots)
      if (slot.view != kNoView) (*views_)[slot.view].pinned = true;
  plan_hint_.store(plan_.get(), std::memory_order_release);
}

bool DeviceMemory::awaiting_iteration() const {
  std::lock_guard lock(mutex_);
  return next_plan_ != nullptr;
}

}  // namespace stalloc::runtime
