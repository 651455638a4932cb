#include "runtime/device/device_memory.h"

#include <algorithm>

#include "runtime/call_sites/call_site.h"

namespace stalloc::runtime {

std::atomic<int> DeviceMemory::captures_in_progress{0};

namespace {

// A marker (an event) is recorded behind every so many frees of a stream, so that another stream's request finds some
// that have passed.
constexpr std::uint64_t kFreesPerMarker = 64;
// While there is one stream alone, only what unmaps memory asks how far it has come.
constexpr std::uint64_t kFreesPerMarkerAlone = 1024;

// So many times the addresses of the views that are kept: for twice as many where work is pending, for the room that
// each has behind it, and for what lies between them.
constexpr std::uint64_t kAddressesPerViewPage = 4;

}  // namespace

DeviceMemory::DeviceMemory(const DriverApi& driver, CUdevice device, int ordinal, const MemoryPolicy& policy)
    : driver_(driver),
      device_(device),
      ordinal_(ordinal),
      policy_(policy),
      pages_(driver, device, policy.peers),
      budget_(policy.growth),
      stalls_(driver),
      blocks_(1 << 14) {}

DeviceMemory::~DeviceMemory() = default;

CUresult DeviceMemory::Initialise() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (CUresult result = driver_.cuMemGetInfo(&free_bytes, &total_bytes); result != CUDA_SUCCESS) return result;
  if (CUresult result = pages_.Reserve(total_bytes); result != CUDA_SUCCESS) return result;
  try {
    MakeTables();
  } catch (const std::bad_alloc&) {
    pages_.Abandon();
    throw;
  }
  return CUDA_SUCCESS;
}

void DeviceMemory::MakeTables() {
  space_ = std::make_unique<FreeSpace>(static_cast<Granule>(pages_.base_bytes() / kGranuleBytes));
  views_ = std::make_unique<ViewTable>(pages_.views_bytes());
  view_pages_ = std::min(policy_.view_pages, std::uint64_t{pages_.views_bytes() / kPageBytes} / kAddressesPerViewPage);
  search_ = std::make_unique<MemorySearch>(*space_, *views_, streams_);
  plans_.emplace(*space_, *views_, counters_, pages_.cost());
  MakeRoomToDefer();
}

// While a single stream is all there is, everything is in its order and no fence is kept.
inline DeviceMemory::Who DeviceMemory::Resolve(const std::optional<Order>& order) {
  const StreamIndex stream = order ? streams_.IndexOf(order->stream, order->context) : kNoStream;
  if (multi_stream_) return {stream, stream};
  if (stream == first_stream_ && stream != kNoStream && !unordered_requests_) [[likely]]
    return {stream, kNoStream};
  return ResolveOther(stream);
}

// The second stream, or the first request without one, starts the bookkeeping: what is free then was freed in the first
// stream's order.
DeviceMemory::Who DeviceMemory::ResolveOther(StreamIndex stream) {
  if (stream != kNoStream) {
    if (first_stream_ == kNoStream) first_stream_ = stream;
    if (stream != first_stream_) FenceAllBehind(first_stream_);
    multi_stream_ = multi_stream_ || unordered_requests_;
  } else {
    unordered_requests_ = true;
    if (first_stream_ != kNoStream) FenceAllBehind(first_stream_);
  }
  return {stream, multi_stream_ ? stream : kNoStream};
}

// Under the lock. From here on it is told apart what was freed in whose order. Until now one stream alone had requests:
// all that is free was freed in its order.
void DeviceMemory::FenceAllBehind(StreamIndex only) noexcept {
  space_->RefenceAll(kNoStream, streams_.Advance(only));
  multi_stream_ = true;
}

// There are more streams than can be followed. Those that have ended keep their place until all that was freed in their
// order has executed.
[[gnu::noinline]] DeviceMemory::Who DeviceMemory::ResolveInRoomOfEnded(const std::optional<Order>& order,
                                                                       std::unique_lock<ShortLock>* lock,
                                                                       ContextOnDemand* context) {
  if (!streams_.AnyRetired()) return {};
  lock->unlock();
  if (context != nullptr) context->Enter();
  const bool idle = SynchroniseAll();
  lock->lock();
  return idle ? Resolve(order) : Who{};
}

DeviceMemory::Allocation DeviceMemory::Allocate(std::uint64_t size_bytes, const std::optional<Order>& order,
                                                std::uint64_t call_site, ContextOnDemand* context, Owner owner) {
  if (size_bytes > pages_.base_bytes()) return {.result = CUDA_ERROR_OUT_OF_MEMORY};
  const Granule granules = GranulesOf(size_bytes);
  std::unique_lock lock(mutex_);
  blocks_.MakeRoom();  // what is claimed from here on can be published
  Who who = Resolve(order);
  if (order && who.stream == kNoStream) [[unlikely]] {
    who = ResolveInRoomOfEnded(order, &lock, context);
    if (who.stream == kNoStream) return {.result = CUDA_ERROR_NOT_SUPPORTED};
  }
  Asked asked({size_bytes, granules, call_site}, who, owner, *plans_);
  const PlanFollower::Proposal& proposal = asked.proposal;
  if (proposal.place == nullptr && proposal.rooms.empty()) {
    if (lifetime_rooms_.watching()) [[unlikely]]
      return AllocateWatched(asked, std::move(lock), context);
    if (const std::optional<Run> run = FindExisting(asked)) {
      space_->Claim(*run);
      return Publish(asked, AddressOf(*run), kNoView, false);
    }
  } else if (proposal.place != nullptr && proposal.place->kind == BlockPlace::Kind::kRun) {
    const Run run{proposal.place->begin, proposal.place->begin + granules};
    if (TakeWhole(run, who.effective)) return Publish(asked, AddressOf(run), kNoView, true);
  }
  return AllocateByClaim(asked, std::move(lock), context);
}

// With a guess of whether the block will last. Apart, for the usual case has no use for it.
DeviceMemory::Allocation DeviceMemory::AllocateWatched(Asked asked, std::unique_lock<ShortLock> lock,
                                                       ContextOnDemand* context) {
  const LifetimeRooms::Guess guess = lifetime_rooms_.Ask(asked.granules, UsedGranules() + asked.granules);
  asked.guess = &guess;
  if (const std::optional<Run> run = FindExisting(asked)) {
    space_->Claim(*run);
    return Publish(asked, AddressOf(*run), kNoView, false);
  }
  return AllocateByClaim(asked, std::move(lock), context);
}

// What is not one run that is free at once. Begins under the lock of the attempt that found out.
DeviceMemory::Allocation DeviceMemory::AllocateByClaim(Asked& asked, std::unique_lock<ShortLock> lock,
                                                       ContextOnDemand* context) {
  PlanFollower::Proposal& proposal = asked.proposal;
  proposal.may_wait = proposal.may_wait && MayWait();
  // A plan may be retired, and freed, while the lock is released: what it proposed is not looked at any more.
  const std::uint64_t retirements = plans_->retirements();
  const auto relock = [&] {
    lock.lock();
    if (plans_->retirements() != retirements) proposal = {.call_site = proposal.call_site};
    // Nor is the view of a block that stays: a trim may have dropped it. TakePlace looks for it again.
    if (proposal.place != nullptr && !proposal.is_slot) proposal.place->view = kNoView;
  };
  Claim claim;
  Refusal refusal = TakeProposed(asked, &claim);
  if (refusal == Refusal::kOrder) {
    // Perhaps nobody has looked lately how far the other stream has come. Served elsewhere, the request would lie where
    // others are to.
    lock.unlock();
    if (context != nullptr) context->Enter();
    RecordMarkers();
    relock();
    refusal = TakeProposed(asked, &claim);
  }
  if (refusal == Refusal::kBudget && !proposal.is_slot) {
    // As much is held as the plan holds, but not in its places, and a block that is to stay would be in its way.
    lock.unlock();
    if (context != nullptr) context->Enter();
    if (SynchroniseAll()) GiveBackIdle(0, Spare::kPlanned);
    relock();
    refusal = TakeProposed(asked, &claim);
  }
  const bool planned = proposal.place != nullptr && refusal == Refusal::kNone;
  if (proposal.is_slot && !planned) plans_->NoteBusy();
  const bool stays = proposal.place != nullptr && !proposal.is_slot;
  if (planned || (stays && TakeHighest(asked, &claim)) || TakeRoom(asked, &claim) || TakeQuietRoom(asked, &claim) ||
      TakeExisting(asked, &claim)) {
    if (!claim.needs_driver) return PublishClaim(asked, claim, planned);
    lock.unlock();
    if (context != nullptr) context->Enter();
    const CUresult result = Carry(&claim, asked.who);
    lock.lock();
    if (result == CUDA_SUCCESS) return PublishClaim(asked, claim, planned);
    UndoClaim(claim, asked.who);
  }
  lock.unlock();
  if (context != nullptr) context->Enter();
  return AllocateSlowly(asked);
}

// Memory must be mapped, waited for, or is short. Each attempt leaves nothing behind when it fails.
DeviceMemory::Allocation DeviceMemory::AllocateSlowly(const Asked& asked) {
  FinishDeferred();
  RecordMarkers();
  EvictViews();
  for (const bool frugal : {false, true}) {
    // The driver refused: let all work finish, so that everything free is usable, and hold as little as possible.
    if (frugal) {
      NoteRefused(kPageBytes);
      if (!SynchroniseAll()) break;
      pages_.TrimDriversPool();
    }
    Claim claim;
    {
      std::lock_guard lock(mutex_);
      const SpentTimer timer(spent(), Cause::kSearch);
      Sweep();
      if (!TakeBest(asked, frugal, &claim)) continue;
      if (!claim.needs_driver) return PublishClaim(asked, claim, false);
    }
    const CUresult result = CarryWithinBudget(&claim, asked.who);
    std::lock_guard lock(mutex_);
    if (result == CUDA_SUCCESS) return PublishClaim(asked, claim, false);
    UndoClaim(claim, asked.who);
  }
  NoteRefused(asked.size_bytes);
  std::lock_guard lock(mutex_);
  ++counters_.out_of_memory;
  return {.result = CUDA_ERROR_OUT_OF_MEMORY};
}

// Under the lock. Throws, with nothing claimed any more, where others have taken the last room for blocks meanwhile.
DeviceMemory::Allocation DeviceMemory::PublishClaim(const Asked& asked, const Claim& claim, bool planned) {
  try {
    blocks_.MakeRoom();
  } catch (const std::bad_alloc&) {
    UndoClaim(claim, asked.who);
    throw;
  }
  for (const Run& run : claim.left_over) space_->Release(run, Fence{});
  counters_.peak_reserved_bytes = std::max(counters_.peak_reserved_bytes, counters_.reserved_bytes);
  counters_.reserved_high_bytes = std::max(counters_.reserved_high_bytes, counters_.reserved_bytes);
  if (claim.where.kind == Found::Kind::kRun) return Publish(asked, AddressOf(claim.where.run), kNoView, planned);
  ViewTable::View& view = (*views_)[claim.where.view];
  view.last_used = ++view_clock_;
  const CUdeviceptr begin = pages_.views() + view.offset_bytes + std::size_t{view.head} * kGranuleBytes;
  return Publish(asked, begin, claim.where.view, planned);
}

DeviceMemory::Allocation DeviceMemory::Publish(const Asked& asked, CUdeviceptr address, ViewIndex view, bool planned) {
  const PlanFollower::Proposal& proposal = asked.proposal;
  Block& block = blocks_.At(Key(address));
  block = {.size_bytes = asked.size_bytes,
           .number = next_number_++,
           .granules = asked.granules,
           .view = view,
           .planned = planned,
           .waited_for = proposal.waited_for,
           .owner = asked.owner,
           .site = SiteTag(proposal.call_site)};

  MemoryCounters& c = counters_;
  const std::uint64_t used_bytes = std::uint64_t{asked.granules} * kGranuleBytes;
  c.live_bytes += asked.size_bytes;
  c.used_bytes += used_bytes;
  c.blocks.Add(1);
  (asked.size_bytes <= kSmallBlockBytes ? c.small_blocks : c.large_blocks).Allocated(asked.size_bytes, used_bytes);
  c.live_high_bytes = std::max(c.live_high_bytes, c.live_bytes);
  c.peak_live_bytes = std::max(c.peak_live_bytes, c.live_bytes);
  c.used_high_bytes = std::max(c.used_high_bytes, c.used_bytes);
  ++(planned ? c.planned_requests : c.online_requests);
  if (proposal.scaled >= 0 && !planned) [[unlikely]]
    plans_->NoteServedOnline(proposal, view, BeginOf(address, view));
  (planned ? c.planned_bytes : c.online_bytes) += asked.size_bytes;
  if (asked.guess != nullptr) [[unlikely]] {
    const Granule end = view == kNoView ? BeginOf(address, view) + asked.granules : 0;
    lifetime_rooms_.Note(Key(address), *asked.guess, asked.granules, end, UsedGranules());
    if (asked.guess->room != LifetimeRooms::Room::kAny) ++c.sorted_requests;
  }
  if (seen_.on()) Observe(Observation::Op::kAllocate, address, block, asked.who.stream, proposal.call_site, 0);
  return {CUDA_SUCCESS, address, block.number, planned, asked.who.stream, recorder_ ? recorder_->NextSequence() : 0};
}

inline void DeviceMemory::CountFree(CUdeviceptr address, const Block& block, StreamIndex stream, Fence place,
                                    BlockInfo* freed) {
  const std::uint64_t used_bytes = std::uint64_t{block.granules} * kGranuleBytes;
  counters_.live_bytes -= block.size_bytes;
  counters_.used_bytes -= used_bytes;
  counters_.blocks.Subtract(1);
  (block.size_bytes <= kSmallBlockBytes ? counters_.small_blocks : counters_.large_blocks)
      .Freed(block.size_bytes, used_bytes);
  ++counters_.frees;
  if (lifetime_rooms_.watching()) [[unlikely]]
    lifetime_rooms_.End(Key(address), block.granules);
  if (seen_.on()) Observe(Observation::Op::kFree, address, block, stream, 0, place.position);
  if (freed != nullptr) *freed = {address, block.size_bytes, block.number, recorder_ ? recorder_->NextSequence() : 0};
}

// All that may fail for want of host memory comes before the block is taken out: then it is as if nobody had asked.
CUresult DeviceMemory::Free(CUdeviceptr address, const std::optional<Order>& order, BlockInfo* freed,
                            StreamIndex* stream, ContextOnDemand* context) {
  Block block;
  Who who;
  bool marker_due = false;
  {
    std::lock_guard lock(mutex_);
    if (address % kGranuleBytes != 0 || blocks_.Find(Key(address)) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    who = Resolve(order);
    if (who.stream == kNoStream || captures_in_progress.load(std::memory_order_relaxed) != 0) [[unlikely]]
      MakeRoomToDefer();
    blocks_.Extract(Key(address), &block);
    const Fence place = who.stream != kNoStream ? streams_.Advance(who.stream) : Fence{};
    CountFree(address, block, who.stream, place, freed);
    if (stream != nullptr) *stream = who.stream;
    if (who.stream != kNoStream) {
      if (captures_in_progress.load(std::memory_order_relaxed) != 0) [[unlikely]]
        return Defer(address, block);
      ReleaseBlock(address, block, place);
      marker_due = streams_.NeedsMarker(who.stream, multi_stream_ ? kFreesPerMarker : kFreesPerMarkerAlone);
      if (!marker_due && !block.waited_for) [[likely]]
        return CUDA_SUCCESS;
    }
  }
  if (context != nullptr) context->Enter();
  if (who.stream == kNoStream) return FreeWhenIdle(address, block);
  try {
    if (marker_due) RecordMarkers();
    if (block.waited_for) RecordMarker(who.stream);
  } catch (const std::bad_alloc&) {  // the next request of another stream waits for more than it need
  }
  return CUDA_SUCCESS;
}

// Under the lock. So much that every thread that is between this and deferring a block finds room for its own.
void DeviceMemory::MakeRoomToDefer() {
  constexpr std::size_t kThreadsAtOnce = 256;
  const std::size_t needed = deferred_.size() + kThreadsAtOnce;
  if (deferred_.capacity() < needed) deferred_.reserve(2 * needed);
}

// Under the lock, with room made. Not inlined: few frees need it, all would have to make room for it.
[[gnu::noinline]] CUresult DeviceMemory::Defer(CUdeviceptr address, const Block& block) {
  deferred_.push_back({address, block, ++last_deferred_});
  return CUDA_SUCCESS;
}

// Without a stream the program relies on the call's implicit synchronisation, and so does the next owner, in whichever
// context. While somebody captures there is nothing to wait for with: the memory stays aside until that is over.
CUresult DeviceMemory::FreeWhenIdle(CUdeviceptr address, const Block& block) {
  CUresult result = CUDA_SUCCESS;
  bool idle = false;
  try {
    idle = captures_in_progress.load(std::memory_order_relaxed) == 0 && WaitForContexts(block.owner, &result);
  } catch (const std::bad_alloc&) {  // which contexts there are could not be listed
  }
  std::lock_guard lock(mutex_);
  if (idle) {
    ReleaseBlock(address, block, Fence{});
  } else {
    Defer(address, block);
  }
  return result;
}

std::vector<DeviceMemory::BlockInfo> DeviceMemory::FreeAllOf(Owner owner) {
  std::vector<BlockInfo> freed;
  std::lock_guard lock(mutex_);
  std::vector<CUdeviceptr> addresses;
  blocks_.ForEach([&](std::uint64_t key, const Block& block) {
    if (block.owner == owner) addresses.push_back(key * kGranuleBytes);
  });
  freed.reserve(addresses.size());
  Block block;
  for (const CUdeviceptr address : addresses) {
    blocks_.Extract(Key(address), &block);
    CountFree(address, block, kNoStream, Fence{}, &freed.emplace_back());
    ReleaseBlock(address, block, Fence{});
  }
  return freed;
}

}  // namespace stalloc::runtime
