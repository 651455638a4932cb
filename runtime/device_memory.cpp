#include "runtime/device_memory.h"

#include <algorithm>

namespace stalloc::runtime {

std::atomic<int> DeviceMemory::captures_in_progress{0};

namespace {

// A marker (an event) is recorded behind every so many frees of a stream, so that another stream's request finds some
// that have passed.
constexpr std::uint64_t kFreesPerMarker = 64;

// Requests seen but not yet fetched by the learner.
constexpr std::size_t kMaxSeen = std::size_t{1} << 18;

}  // namespace

DeviceMemory::DeviceMemory(const DriverApi& driver, CUdevice device, int ordinal, const MemoryPolicy& policy)
    : driver_(driver), device_(device), ordinal_(ordinal), policy_(policy), pages_(driver, device), blocks_(1 << 14) {}

DeviceMemory::~DeviceMemory() = default;

CUresult DeviceMemory::Initialise() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (CUresult result = driver_.cuMemGetInfo(&free_bytes, &total_bytes); result != CUDA_SUCCESS) return result;
  if (CUresult result = pages_.Reserve(total_bytes); result != CUDA_SUCCESS) return result;
  space_ = std::make_unique<FreeSpace>(static_cast<Granule>(pages_.base_bytes() / kGranuleBytes));
  views_ = std::make_unique<ViewTable>(pages_.views_bytes());
  search_ = std::make_unique<MemorySearch>(*space_, *views_, streams_);
  return CUDA_SUCCESS;
}

// --- Order
// ------------------------------------------------------------------------------------------------------------

// While a single stream is all there is, everything is in its order and no fence is kept. The second stream, or the
// first request without one, starts the bookkeeping: what is free then was freed in the first stream's order.
DeviceMemory::Who DeviceMemory::Resolve(std::optional<Order> order) {
  Who who;
  if (order) {
    who.stream = streams_.IndexOf(order->stream, order->scope);
    if (!multi_stream_ && (streams_.count() > 1 || unordered_requests_)) {
      if (streams_.count() > 1) space_->RefenceAll(kNoStream, streams_.Advance(1));
      multi_stream_ = true;
    }
  } else {
    unordered_requests_ = true;
    if (!multi_stream_ && streams_.count() > 0) {
      space_->RefenceAll(kNoStream, streams_.Advance(1));
      multi_stream_ = true;
    }
  }
  if (multi_stream_) who.effective = who.stream;
  return who;
}

// --- Claiming, under the lock
// -----------------------------------------------------------------------------------------

template <typename Visit>
void DeviceMemory::ForEachRun(const Found& where, Granule granules, Visit visit) const {
  if (where.kind == Found::Kind::kRun) {
    visit(where.run);
    return;
  }
  const std::vector<PageNumber>& pages = where.kind == Found::Kind::kView ? (*views_)[where.view].pages : where.pages;
  const std::size_t count = (granules + kPageGranules - 1) / kPageGranules;
  for (std::size_t k = 0; k < count;) {
    Run run = GranulesInPage(pages[k], k, granules);
    while (++k < count && pages[k] == pages[k - 1] + 1) run.end = GranulesInPage(pages[k], k, granules).end;
    visit(run);
  }
}

CUdeviceptr DeviceMemory::AddressOf(const Found& where) const noexcept {
  if (where.kind == Found::Kind::kRun) return pages_.base() + std::size_t{where.run.begin} * kGranuleBytes;
  return pages_.views() + (*views_)[where.view].offset_bytes;
}

// Takes a run whose every granule is free. Pages that do not exist yet are taken whole and noted to be mapped; parts in
// another stream's order are noted to be waited for.
void DeviceMemory::ClaimRun(Run run, StreamIndex stream, Claim* claim) {
  const std::size_t first_new = claim->new_pages.size();
  space_->VisitOverlapping(run, [&](Run piece, Fence fence) {
    if (fence.stream == kAbsent) {
      const PageNumber first = piece.begin / kPageGranules;
      const PageNumber last = (piece.end + kPageGranules - 1) / kPageGranules;
      claim->new_pages.push_back({first, last - first});
      if (first * kPageGranules < piece.begin) claim->left_over.push_back({first * kPageGranules, piece.begin});
      if (piece.end < last * kPageGranules) claim->left_over.push_back({piece.end, last * kPageGranules});
    } else if (multi_stream_ && !streams_.Behind(stream, fence)) {
      claim->waits.emplace_back(piece, fence);
    }
  });
  space_->Claim(run);
  for (std::size_t i = first_new; i < claim->new_pages.size(); ++i) {
    const auto& pages = claim->new_pages[i];
    const Granule begin = pages.first * kPageGranules;
    const Granule end = (pages.first + pages.count) * kPageGranules;
    if (begin < run.begin) space_->Claim({begin, run.begin});
    if (end > run.end) space_->Claim({run.end, end});
    counters_.reserved_bytes += std::uint64_t{pages.count} * kPageBytes;
  }
  claim->needs_driver = claim->needs_driver || !claim->new_pages.empty() || !claim->waits.empty();
}

void DeviceMemory::Take(Found found, Granule granules, StreamIndex stream, Claim* claim) {
  claim->where = std::move(found);
  claim->granules = granules;
  ForEachRun(claim->where, granules, [&](Run run) { ClaimRun(run, stream, claim); });
  if (claim->where.kind == Found::Kind::kPages) claim->needs_driver = true;
  if (claim->where.kind == Found::Kind::kExchange) {
    claim->needs_driver = true;
    (*views_)[claim->where.view].changing = true;
  }
}

// Gives back what a claim took but could not use.
void DeviceMemory::UndoClaim(const Claim& claim, StreamIndex stream) {
  // What had nothing to wait for is in this stream's order now.
  const Fence here = stream == kNoStream ? Fence{} : MemoryFence(streams_.Advance(stream));
  for (const auto& [run, fence] : claim.waits) space_->Release(run, fence);
  for (std::size_t i = 0; i < claim.new_pages.size(); ++i) {
    const auto& pages = claim.new_pages[i];
    const bool exists = i < claim.mapped_runs;
    space_->Release({pages.first * kPageGranules, (pages.first + pages.count) * kPageGranules},
                    exists ? Fence{} : Fence{kAbsent, 0});
    if (!exists) counters_.reserved_bytes -= std::uint64_t{pages.count} * kPageBytes;
  }
  ForEachRun(claim.where, claim.granules, [&](Run run) {
    std::vector<Run> parts{run};
    auto subtract = [&](Run taken) {
      std::vector<Run> rest;
      for (const Run& part : parts) {
        if (taken.end <= part.begin || part.end <= taken.begin) {
          rest.push_back(part);
          continue;
        }
        if (part.begin < taken.begin) rest.push_back({part.begin, taken.begin});
        if (taken.end < part.end) rest.push_back({taken.end, part.end});
      }
      parts.swap(rest);
    };
    for (const auto& wait : claim.waits) subtract(wait.first);
    for (const auto& pages : claim.new_pages)
      subtract({pages.first * kPageGranules, (pages.first + pages.count) * kPageGranules});
    for (const Run& part : parts) space_->Release(part, here);
  });
}

bool DeviceMemory::WithinLimit(PageNumber new_pages) const noexcept {
  return counters_.reserved_bytes + std::uint64_t{new_pages} * kPageBytes <= policy_.limit_bytes;
}

// A planned place is taken only if all of it is free now and needs no waiting; the plan is advice.
bool DeviceMemory::TakePlace(const BlockPlace& place, Granule granules, StreamIndex stream, Claim* claim) {
  Found found;
  if (place.kind == BlockPlace::Kind::kRun) {
    found.kind = Found::Kind::kRun;
    found.run = {place.begin, place.begin + granules};
    if (found.run.end > pages_.page_limit() * kPageGranules) return false;
  } else if (place.kind == BlockPlace::Kind::kPages) {
    if (std::size_t{granules} > place.pages.size() * kPageGranules) return false;
    if (place.view != kNoView) {
      found.kind = Found::Kind::kView;
      found.view = place.view;
    } else {
      found.kind = Found::Kind::kPages;
      found.pages.assign(place.pages.begin(), place.pages.begin() + (granules + kPageGranules - 1) / kPageGranules);
    }
  } else {
    return false;
  }
  bool usable = true;
  PageNumber new_pages = 0;
  ForEachRun(found, granules, [&](Run run) {
    Granule reached = run.begin;
    space_->VisitOverlapping(run, [&](Run piece, Fence fence) {
      usable = usable && piece.begin == reached;
      reached = piece.end;
      if (fence.stream == kAbsent) {
        new_pages += (piece.end + kPageGranules - 1) / kPageGranules - piece.begin / kPageGranules;
      } else if (multi_stream_) {
        usable = usable && streams_.Behind(stream, fence);
      }
    });
    usable = usable && reached == run.end;
  });
  if (!usable) return false;
  if (new_pages != 0) {
    const std::uint64_t used = counters_.used_bytes + std::uint64_t{granules} * kGranuleBytes;
    const std::uint64_t budget = std::max({plan_->budget_bytes, used, counters_.peak_live_bytes}) + kPageBytes;
    if (!WithinLimit(new_pages) || counters_.reserved_bytes + std::uint64_t{new_pages} * kPageBytes > budget)
      return false;
  }
  Take(std::move(found), granules, stream, claim);
  return true;
}

bool DeviceMemory::TakePlanned(std::int32_t index, Granule granules, StreamIndex stream, Claim* claim) {
  const BlockPlace& slot = plan_->slots[static_cast<std::size_t>(index)];
  if (slot.kind == BlockPlace::Kind::kNone) return false;
  if (TakePlace(slot, granules, stream, claim)) return true;
  ++counters_.slot_busy;
  return false;
}

// A block that an earlier run made once and kept: known by its call site, its size and how many such came before it.
bool DeviceMemory::TakePersistent(std::uint64_t size_bytes, std::uint64_t call_site, Granule granules,
                                  StreamIndex stream, Claim* claim) {
  constexpr std::uint64_t kWarmIterations = 3;  // after these the program has made all that it keeps
  if (plan_->matcher.IterationsSeen() >= kWarmIterations) plan_->persistent_left.store(0, std::memory_order_relaxed);
  const auto found = plan_->persistent.find(PlanInForce::PersistentKey(call_site, size_bytes));
  if (found == plan_->persistent.end()) return false;
  PlanInForce::Persistent& known = found->second;
  const std::uint32_t occurrence = known.requests++;
  if (known.next == known.places.size() || known.places[known.next].first != occurrence) return false;
  plan_->persistent_left.fetch_sub(1, std::memory_order_relaxed);
  return TakePlace(known.places[known.next++].second, granules, stream, claim);
}

// Memory that exists and needs nothing from the driver.
bool DeviceMemory::TakeExisting(Granule granules, StreamIndex stream, Claim* claim) {
  const Granule from = plan_ ? plan_->online_from : 0;
  Found found = search_->Contiguous(granules, stream, MemorySearch::Waits::kNo, from);
  // While the program still makes what it will keep, the room below belongs to that.
  if (!found && from != 0 && plan_->persistent_left.load(std::memory_order_relaxed) == 0)
    found = search_->Contiguous(granules, stream, MemorySearch::Waits::kNo);
  if (!found && granules > kPageGranules) found = search_->KeptView(granules, stream, MemorySearch::Waits::kNo);
  if (!found) return false;
  Take(std::move(found), granules, stream, claim);
  return true;
}

// Everything else, cheapest first. `frugal`: memory is short, so holding less comes before mapping less.
bool DeviceMemory::TakeBest(Granule granules, StreamIndex stream, bool frugal, Claim* claim) {
  using Waits = MemorySearch::Waits;
  const bool large = granules > kPageGranules;
  auto take = [&](Found found) {
    if (!found) return false;
    Take(std::move(found), granules, stream, claim);
    return true;
  };
  if (TakeExisting(granules, stream, claim)) return true;

  const Granule from = plan_ ? plan_->online_from : 0;
  Found grown = search_->Grow(granules, stream, from);
  const std::uint64_t live =
      std::max(counters_.used_bytes + std::uint64_t{granules} * kGranuleBytes, counters_.peak_live_bytes);
  const std::uint64_t reserved = counters_.reserved_bytes + std::uint64_t{grown.new_pages} * kPageBytes;
  const bool cheap = grown && static_cast<double>(reserved) <= static_cast<double>(live) * policy_.growth + kPageBytes;
  // A small block must not settle where the program's next weights will lie: a page of its own costs less than that.
  const bool apart = !large && from != 0 && plan_->persistent_left.load(std::memory_order_relaxed) != 0;
  if (grown && (cheap || apart) && !frugal && WithinLimit(grown.new_pages)) return take(std::move(grown));

  if (take(search_->Contiguous(granules, stream, Waits::kNo))) return true;
  if (large && take(search_->Exchange(granules, stream, Waits::kNo))) return true;
  if (large && take(search_->Stitch(granules, stream, Waits::kNo, 0, from))) return true;
  // Other streams' memory, behind a wait: only now, when the alternative is to hold more.
  if (multi_stream_ && captures_in_progress.load(std::memory_order_relaxed) == 0) {
    if (take(search_->Contiguous(granules, stream, Waits::kYes))) return true;
    if (large && take(search_->KeptView(granules, stream, Waits::kYes))) return true;
    if (large && take(search_->Stitch(granules, stream, Waits::kYes, 0, from))) return true;
  }
  if (large && grown.new_pages > 0) {
    Found stitched = search_->Stitch(granules, stream, Waits::kNo, grown ? grown.new_pages - 1 : ~PageNumber{0}, from);
    if (stitched && WithinLimit(stitched.new_pages)) return take(std::move(stitched));
  }
  return WithinLimit(grown.new_pages) && take(std::move(grown));
}

// Memory whose last use is known to have executed becomes everybody's.
void DeviceMemory::Sweep() {
  for (StreamIndex s = 1; s <= streams_.count(); ++s) space_->Pass(s, streams_.Passed(s));
}

// --- Allocate
// ---------------------------------------------------------------------------------------------------------

DeviceMemory::Allocation DeviceMemory::Allocate(std::uint64_t size_bytes, std::optional<Order> order,
                                                std::uint64_t call_site) {
  if (size_bytes > pages_.base_bytes()) return {.result = CUDA_ERROR_OUT_OF_MEMORY};
  const Granule granules = GranulesOf(size_bytes);
  Claim claim;
  Who who;
  bool planned = false;
  bool taken = false;
  {
    std::lock_guard lock(mutex_);
    who = Resolve(order);
    if (order && who.stream == kNoStream) return {.result = CUDA_ERROR_NOT_SUPPORTED};  // more streams than we follow
    if (next_plan_) {
      next_plan_->matcher.Match(size_bytes, 0, call_site);
      if (next_plan_->matcher.IterationsSeen() != 0) PutInForce(std::move(next_plan_));
    }
    if (plan_) {
      const std::int32_t index = plan_->matcher.Match(size_bytes, 0, call_site);
      if (call_site != 0 && plan_->persistent_left.load(std::memory_order_relaxed) != 0)
        planned = TakePersistent(size_bytes, call_site, granules, who.effective, &claim);
      if (index >= 0) {
        ++counters_.matched_requests;
        planned = planned || TakePlanned(index, granules, who.effective, &claim);
      }
    }
    taken = planned || TakeExisting(granules, who.effective, &claim);
    if (taken && !claim.needs_driver) return Publish(size_bytes, who, call_site, claim, planned);
  }
  if (taken) {
    if (Carry(&claim, who) == CUDA_SUCCESS) {
      std::lock_guard lock(mutex_);
      return Publish(size_bytes, who, call_site, claim, planned);
    }
    std::lock_guard lock(mutex_);
    UndoClaim(claim, who.effective);
  }
  return AllocateSlowly(size_bytes, who, call_site);
}

// Memory must be mapped, waited for, or is short. Each attempt leaves nothing behind when it fails.
DeviceMemory::Allocation DeviceMemory::AllocateSlowly(std::uint64_t size_bytes, const Who& who,
                                                      std::uint64_t call_site) {
  const Granule granules = GranulesOf(size_bytes);
  FinishDeferred();
  RecordMarkers();
  EvictViews();
  for (const bool frugal : {false, true}) {
    // The driver refused: let all work finish, so that everything free is usable, and hold as little as possible.
    if (frugal && !SynchroniseAll()) break;
    Claim claim;
    {
      std::lock_guard lock(mutex_);
      Sweep();
      if (!TakeBest(granules, who.effective, frugal, &claim)) continue;
      if (!claim.needs_driver) return Publish(size_bytes, who, call_site, claim, false);
    }
    const CUresult result = Carry(&claim, who);
    std::lock_guard lock(mutex_);
    if (result == CUDA_SUCCESS) return Publish(size_bytes, who, call_site, claim, false);
    UndoClaim(claim, who.effective);
  }
  std::lock_guard lock(mutex_);
  ++counters_.out_of_memory;
  return {.result = CUDA_ERROR_OUT_OF_MEMORY};
}

DeviceMemory::Allocation DeviceMemory::Publish(std::uint64_t size_bytes, const Who& who, std::uint64_t call_site,
                                               const Claim& claim, bool planned) {
  for (const Run& run : claim.left_over) space_->Release(run, Fence{});
  Block block{.size_bytes = size_bytes, .number = next_number_++, .granules = claim.granules, .planned = planned};
  if (claim.where.kind == Found::Kind::kView) {
    block.view = claim.where.view;
    ViewTable::View& view = (*views_)[block.view];
    ++view.live_blocks;
    view.last_used = ++view_clock_;
  }
  const CUdeviceptr address = AddressOf(claim.where);
  blocks_.Insert(Key(address), block);

  MemoryCounters& c = counters_;
  c.live_bytes += size_bytes;
  c.used_bytes += std::uint64_t{claim.granules} * kGranuleBytes;
  c.peak_live_bytes = std::max(c.peak_live_bytes, c.live_bytes);
  c.used_high_bytes = std::max(c.used_high_bytes, c.used_bytes);
  c.peak_reserved_bytes = std::max(c.peak_reserved_bytes, c.reserved_bytes);
  c.reserved_high_bytes = std::max(c.reserved_high_bytes, c.reserved_bytes);
  ++(planned ? c.planned_requests : c.online_requests);
  (planned ? c.planned_bytes : c.online_bytes) += size_bytes;
  if (observing_.load(std::memory_order_relaxed))
    Observe(Observation::Op::kAllocate, address, block, who.stream, call_site);
  return {CUDA_SUCCESS, address, block.number, planned, who.stream, recorder_ ? recorder_->NextSequence() : 0};
}

// --- Free
// -------------------------------------------------------------------------------------------------------------

void DeviceMemory::ReleaseBlock(CUdeviceptr address, const Block& block, Fence freed) noexcept {
  Found where{.kind = Found::Kind::kRun};
  if (block.view != kNoView) {
    where.kind = Found::Kind::kView;
    where.view = block.view;
    ViewTable::View& view = (*views_)[block.view];
    --view.live_blocks;
    view.last_free = freed;
  } else {
    where.run.begin = static_cast<Granule>((address - pages_.base()) / kGranuleBytes);
    where.run.end = where.run.begin + block.granules;
  }
  ForEachRun(where, block.granules, [&](Run run) { space_->Release(run, MemoryFence(freed)); });
}

CUresult DeviceMemory::Free(CUdeviceptr address, std::optional<Order> order, BlockInfo* freed, StreamIndex* stream) {
  Block block;
  bool marker_due = false;
  Who who;
  {
    std::lock_guard lock(mutex_);
    Block* found = address % kGranuleBytes == 0 ? blocks_.Find(Key(address)) : nullptr;
    if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
    block = *found;
    blocks_.Erase(Key(address));
    who = Resolve(order);
    if (who.stream == kNoStream) order.reset();
    counters_.live_bytes -= block.size_bytes;
    counters_.used_bytes -= std::uint64_t{block.granules} * kGranuleBytes;
    ++counters_.frees;
    if (observing_.load(std::memory_order_relaxed)) Observe(Observation::Op::kFree, address, block, who.stream, 0);
    if (freed != nullptr) *freed = {address, block.size_bytes, block.number, recorder_ ? recorder_->NextSequence() : 0};
    if (stream != nullptr) *stream = who.stream;
    if (order) {
      if (captures_in_progress.load(std::memory_order_relaxed) != 0) {
        deferred_.push_back({address, block});
        return CUDA_SUCCESS;
      }
      ReleaseBlock(address, block, streams_.Advance(who.stream));
      marker_due = streams_.NeedsMarker(who.stream, kFreesPerMarker);
    }
  }
  if (order) {
    if (marker_due) RecordMarkers();
    return CUDA_SUCCESS;
  }
  // Without a stream the program relies on the call's implicit synchronisation, and so does the next owner.
  const CUresult result = driver_.cuCtxSynchronize();
  std::lock_guard lock(mutex_);
  if (result == CUDA_SUCCESS) {
    ReleaseBlock(address, block, Fence{});
    return CUDA_SUCCESS;
  }
  deferred_.push_back({address, block});
  // While somebody captures, the driver forbids to wait; that is no fault of this free.
  return captures_in_progress.load(std::memory_order_relaxed) != 0 ? CUDA_SUCCESS : result;
}

std::optional<DeviceMemory::BlockInfo> DeviceMemory::Find(CUdeviceptr address) const {
  std::lock_guard lock(mutex_);
  if (!Owns(address)) return std::nullopt;
  std::optional<BlockInfo> result;
  // Rare: the program asks for a pointer's attributes. Most ask for the start of a block.
  const CUdeviceptr start = address / kGranuleBytes * kGranuleBytes;
  if (const Block* block = blocks_.Find(Key(start)); block != nullptr && address - start < block->size_bytes)
    return BlockInfo{start, block->size_bytes, block->number, 0};
  blocks_.ForEach([&](std::uint64_t key, const Block& block) {
    const CUdeviceptr begin = key * kGranuleBytes;
    if (address - begin < block.size_bytes) result = BlockInfo{begin, block.size_bytes, block.number, 0};
  });
  return result;
}

// --- What others see
// --------------------------------------------------------------------------------------------------

MemoryCounters DeviceMemory::Counters() const {
  std::lock_guard lock(mutex_);
  MemoryCounters counters = counters_;
  const PageStore::Cost& cost = pages_.cost();
  counters.map_calls = cost.map_calls.load(std::memory_order_relaxed);
  counters.unmap_calls = cost.unmap_calls.load(std::memory_order_relaxed);
  counters.map_ns = cost.map_ns.load(std::memory_order_relaxed);
  counters.views = views_ ? views_->size() : 0;
  counters.iterations = plan_ ? plan_->matcher.IterationsSeen() : 0;
  return counters;
}

std::uint64_t DeviceMemory::IdleBytes() const {
  std::lock_guard lock(mutex_);
  return counters_.reserved_bytes - std::min(counters_.reserved_bytes, counters_.used_bytes);
}

void DeviceMemory::ResetHigh(bool used, bool reserved) {
  std::lock_guard lock(mutex_);
  if (used) counters_.used_high_bytes = counters_.used_bytes;
  if (reserved) counters_.reserved_high_bytes = counters_.reserved_bytes;
}

// --- Learning
// ---------------------------------------------------------------------------------------------------------

void DeviceMemory::Observe(Observation::Op op, CUdeviceptr address, const Block& block, StreamIndex stream,
                           std::uint64_t call_site) {
  if (seen_.size() == seen_.capacity()) {
    seen_lost_ = true;
    return;
  }
  Seen seen;
  seen.observation = {op, 0, block.number, block.size_bytes, call_site};
  seen.view = block.view;
  if (block.view == kNoView) seen.begin = static_cast<Granule>((address - pages_.base()) / kGranuleBytes);
  seen.stream = stream;
  seen_.push_back(seen);
}

void DeviceMemory::SetObserving(bool on) {
  std::vector<Seen> room;
  if (on) room.reserve(kMaxSeen);
  std::lock_guard lock(mutex_);
  if (on == observing_.load(std::memory_order_relaxed)) return;
  seen_.swap(room);
  seen_lost_ = false;
  observing_.store(on, std::memory_order_relaxed);
}

void DeviceMemory::TakeSeen(std::vector<Seen>* seen, bool* lost) {
  seen->clear();
  seen->reserve(kMaxSeen);
  std::lock_guard lock(mutex_);
  *lost = seen_lost_;
  seen_lost_ = false;
  seen_.swap(*seen);
}

bool DeviceMemory::WantsCallSite(std::uint64_t size_bytes) const noexcept {
  if (observing_.load(std::memory_order_relaxed)) return true;
  const PlanInForce* plan = plan_hint_.load(std::memory_order_acquire);
  if (plan == nullptr) return false;
  return plan->persistent_left.load(std::memory_order_relaxed) != 0 || !plan->matcher.Expects(size_bytes, 0);
}

BlockPlace DeviceMemory::PlaceOf(CUdeviceptr address, const Block& block) const {
  BlockPlace place;
  if (block.view == kNoView) {
    place.kind = BlockPlace::Kind::kRun;
    place.begin = static_cast<Granule>((address - pages_.base()) / kGranuleBytes);
    return place;
  }
  const auto& pages = (*views_)[block.view].pages;
  place.kind = BlockPlace::Kind::kPages;
  place.view = block.view;
  place.pages.assign(pages.begin(), pages.begin() + (block.granules + kPageGranules - 1) / kPageGranules);
  return place;
}

std::vector<DeviceMemory::LiveBlock> DeviceMemory::LiveBlocks() const {
  std::vector<LiveBlock> live;
  std::lock_guard lock(mutex_);
  live.reserve(blocks_.size() + deferred_.size());
  blocks_.ForEach([&](std::uint64_t key, const Block& block) {
    const CUdeviceptr address = key * kGranuleBytes;
    live.push_back({{address, block.size_bytes, block.number, 0}, PlaceOf(address, block)});
  });
  return live;
}

std::vector<PageNumber> DeviceMemory::PagesOfView(ViewIndex view) const {
  std::lock_guard lock(mutex_);
  return (*views_)[view].pages;
}

std::shared_ptr<PlanInForce> DeviceMemory::plan() const {
  std::lock_guard lock(mutex_);
  return plan_;
}

double DeviceMemory::LastIterationMatchRate() const {
  std::lock_guard lock(mutex_);
  return plan_ ? plan_->matcher.LastIterationMatchRate() : 0.0;
}

}  // namespace stalloc::runtime
