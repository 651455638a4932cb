// DeviceMemory: the allocator of one device. Owns its pages, views, free space, live blocks and stream order.
//
// Any thread may call it. One lock guards the bookkeeping and is never held over a driver call. The usual request,
// whose slot or best fit is one free run that exists, is one short critical section that neither allocates nor calls
// the driver. Any other first claims its memory under the lock, then (only where something must be mapped or waited
// for) asks the driver without it, then publishes the block.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/base/driver_api.h"
#include "runtime/base/flat_map.h"
#include "runtime/base/memory_figures.h"
#include "runtime/base/short_lock.h"
#include "runtime/device/claim.h"
#include "runtime/device/large_rooms.h"
#include "runtime/device/lifetime_rooms.h"
#include "runtime/device/memory_search.h"
#include "runtime/device/quiet_room.h"
#include "runtime/device/time_budget.h"
#include "runtime/following/plan_follower.h"
#include "runtime/following/seen_log.h"
#include "runtime/order/context_scope.h"
#include "runtime/order/handles_in_use.h"
#include "runtime/order/stall_timer.h"
#include "runtime/order/stream_table.h"
#include "runtime/order/used_contexts.h"
#include "runtime/pages/free_space.h"
#include "runtime/pages/page_store.h"
#include "runtime/pages/view_table.h"
#include "runtime/recurrence/observation.h"
#include "runtime/trace/recorder.h"

namespace stalloc::runtime {

// How far memory may grow, and how.
struct MemoryPolicy {
  // The pool may grow contiguously up to this multiple of the peak of live bytes before a request is stitched from free
  // pages instead: growth maps less, stitching holds less. nullopt: by what that costs (TimeBudget), and only
  // then are blocks sorted where that lowers it (LifetimeRooms): with a number nobody asks the clock.
  std::optional<double> growth = 1.0;
  std::uint64_t limit_bytes = ~std::uint64_t{0};  // physical memory held
  // Pages mapped for views, most of which nothing lives in: beyond it those used least recently are unmapped as soon as
  // their work is done, and beyond twice as many it is waited for. Less where the device, and with it the range of
  // addresses for views, is small.
  std::uint64_t view_pages = std::uint64_t{1} << 18;
  const PeerAccess* peers = nullptr;          // who else may access it; outlives the memory
  std::function<std::uint64_t()> clock_ns{};  // monotonic, asked without the lock; empty: the process's own
};

class DeviceMemory {
 public:
  // A stream as the program names it, and the context that it is of: see StreamTable.
  struct Order {
    CUstream stream = nullptr;
    CUcontext context = nullptr;
  };

  struct BlockInfo {
    CUdeviceptr address = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t number = 0;    // allocation number on this device, from 1
    std::uint64_t sequence = 0;  // of the free, in the recorder's order; 0 without a recorder
  };

  struct Allocation {
    CUresult result = CUDA_SUCCESS;
    CUdeviceptr address = 0;
    std::uint64_t number = 0;
    bool planned = false;
    StreamIndex stream = kNoStream;
    std::uint64_t sequence = 0;  // in the recorder's order; 0 without a recorder
  };

  // `driver` must outlive this. A context of `device` must be current in every thread that calls, but where a
  // ContextOnDemand is given.
  DeviceMemory(const DriverApi& driver, CUdevice device, int ordinal, const MemoryPolicy& policy);
  ~DeviceMemory();

  CUresult Initialise();

  // Before the first request: events are numbered in `recorder`'s order, where the order is decided.
  void SetRecorder(Recorder* recorder) { recorder_ = recorder; }

  using Owner = UsedContexts::Owner;
  static constexpr Owner kNoOwner = UsedContexts::kNoOwner;

  // `order` nullopt: usable at once on every stream. `call_site` 0: not taken (see WantsCallSite). `context` is entered
  // before the driver is called, where it has to be; without one the device's context must be current.
  Allocation Allocate(std::uint64_t size_bytes, const std::optional<Order>& order, std::uint64_t call_site,
                      ContextOnDemand* context = nullptr, Owner owner = kNoOwner);

  // Ends a block. `order` nullopt: waits first, as cuMemFree does, for all work of the context that the block is of; of
  // a block that is no context's, for all work of the device.
  // CUDA_ERROR_INVALID_VALUE where no live block begins at `address`. `freed` (optional) receives what was freed.
  CUresult Free(CUdeviceptr address, const std::optional<Order>& order, BlockInfo* freed = nullptr,
                StreamIndex* stream = nullptr, ContextOnDemand* context = nullptr);

  // Ends every block of a context that is about to end, all of whose work has executed. Returns what was freed.
  std::vector<BlockInfo> FreeAllOf(Owner owner);

  // Memory may be in use in this context from now on. To be told before the first request of one of its streams, and
  // with its number before the first request that has that for its owner. `waits_in`: see UsedContexts. Throws
  // std::bad_alloc.
  void NoteContext(CUcontext context, CUcontext waits_in, Owner owner = kNoOwner);
  bool IsUsedIn(CUcontext context) const;
  // The context is ending: its handle and those of its streams and events may come back for others as soon as it has.
  // Returns when no thread has any of them in hands. `wait_in`: where its work is waited for first; nullptr: it is not.
  // What was freed in its order and not waited for is nobody else's until it is, or until ContextHasEnded is told the
  // number that this returns.
  using Ending = UsedContexts::Ending;
  Ending ForgetContext(CUcontext context, CUcontext wait_in) noexcept;
  // The driver has destroyed it, or has refused to. `over` false: its work may have outlived it, as a green one's may.
  void ContextHasEnded(Ending ending, bool over = true) noexcept;
  void ContextStays(Ending ending) noexcept;

  void Abandon() noexcept { pages_.Abandon(); }
  CUresult ApplyAccess(CUdevice peer) noexcept { return pages_.ApplyAccess(peer); }  // see PageStore

  bool Owns(CUdeviceptr address) const noexcept { return pages_.Contains(address); }
  std::optional<BlockInfo> Find(CUdeviceptr address) const;

  // Asked without the lock before Allocate: must the call site be taken for a request of this size?
  bool WantsCallSite(std::uint64_t size_bytes) const noexcept {
    return seen_.on() || plans_->WantsCallSite(size_bytes);
  }

  // Gives idle pages whose last use has executed back to the driver, until at most `keep_bytes` are held idle. Returns
  // the bytes given back.
  std::uint64_t Trim(std::uint64_t keep_bytes);

  // Waits for all work and gives back everything idle: somebody on this device has been refused memory.
  std::uint64_t ReleaseIdle();

  // Waits for all work and gives back the idle pages in which neither the plan in force nor the one to come has a slot,
  // but nothing while the program still makes what it will keep. Returns the bytes given back.
  std::uint64_t ReleaseUnplanned();

  // Unmaps some views that have not been used for long, where there are many. To be called every now and then from a
  // thread that serves nobody, so that requests need not.
  void TidyViews();

  // How short memory is, for whoever chooses the plan. nullopt: the driver does not say. Asks the driver, so not too
  // often.
  std::optional<MemoryPressure> TakePressure();
  // Somebody on this device was refused so much, by the driver or by the limit.
  void NoteRefused(std::uint64_t bytes) noexcept;
  bool refused() const noexcept { return refused_bytes_.load(std::memory_order_relaxed) != 0; }

  MemoryCounters Counters() const;
  // What serving took the host: for those who do a part of it outside, to add theirs.
  TimeSpent& spent() noexcept { return pages_.spent(); }
  // Linear in blocks, fragments and views, half of it under the lock: for reports only.
  MemorySnapshot Snapshot() const;
  // What lies where. Linear in blocks and in pages of the device, under the lock: for reports only.
  MemoryLayout Layout();
  std::uint64_t IdleBytes() const;
  void ResetHigh(bool used, bool reserved);

  void NoteStreamDestroyed(Order order) noexcept;
  // What the program says of the order between its streams; each in two steps, see StreamTable. `stream` and `sequence`
  // are for the trace: the stream's index (kNoStream: not followed) and the place in the recorder's order.
  struct Noted {
    StreamIndex stream = kNoStream;
    std::uint64_t sequence = 0;
  };
  using Record = StreamTable::Record;
  Record NoteEventRecords(CUevent event, Order order);
  Noted NoteEventRecorded(CUevent event, Order order, Record record);
  Record RecordOf(CUevent event) const noexcept;
  Noted NoteStreamWaits(Order order, CUevent event, Record record);
  void NoteEventDestroyed(CUevent event);
  // Set while any stream of the process captures: streams are then asked before anything is recorded on them.
  static std::atomic<int> captures_in_progress;

  // --- Learning -----------------------------------------------------------------------------------------------------
  // While on, every request is put down with its place, for the learner to fetch. Bounded; `*lost` says that some were
  // dropped because the learner was too slow.
  void SetObserving(bool on);
  bool observing() const noexcept { return seen_.on(); }
  void TakeSeen(std::vector<SeenLog::Entry>* seen, bool* lost);

  // Live blocks, for the planner to plan around. `call_site`s are the learner's to remember.
  struct LiveBlock {
    BlockInfo info;
    BlockPlace place;
    std::uint32_t site = 0;  // SiteTag of its call site
  };
  std::vector<LiveBlock> LiveBlocks() const;
  // Where the block that begins at `address` lies; nullopt: none does.
  std::optional<BlockPlace> PlaceOfBlock(CUdeviceptr address) const;
  std::vector<PageNumber> PagesOfView(ViewIndex view) const;
  // Pages that do not exist, below the last one that does.
  std::vector<Run> Holes() const;

  // --- Plans, which PlanFollower follows: see there -----------------------------------------------------------------
  // Maps whatever views the plan's slots need first. Returns false if one could not be mapped: nothing changes then.
  bool Install(std::shared_ptr<PlanInForce> plan, PlanFollower::When when);
  bool awaiting_iteration() const;
  void StartFrom(PlanFollower::Plans plans);
  std::optional<PlanFollower::Choice> choice() const;
  void EndChoice() noexcept;
  std::optional<PlanFollower::Scaled> ScaledPlan() const;
  std::optional<PlanFollower::Scaled> TakeOutgrown();
  void KeepPlanInForce();
  // Blocks lie by whether they are expected to last (LifetimeRooms).
  bool sorting() const;
  PlanFollower::InForce in_force() const;
  // Frees the plans that nobody follows any more; to be called every now and then.
  void FreeRetiredPlans();

  int ordinal() const noexcept { return ordinal_; }
  CUdevice device() const noexcept { return device_; }

 private:
  struct Block {
    std::uint64_t size_bytes = 0;
    std::uint64_t number = 0;
    Granule granules = 0;
    ViewIndex view = kNoView;  // kNoView: in the base range, where the address says
    bool planned = false;
    bool waited_for = false;  // by the plan: an event is recorded behind its free
    Owner owner = kNoOwner;
    std::uint32_t site = 0;  // SiteTag of the call site
  };

  struct Who {
    StreamIndex stream = kNoStream;     // the stream, as registered
    StreamIndex effective = kNoStream;  // what memory is ordered by: none while only one stream has been seen
  };

  struct Asked : PlanFollower::Request {
    // Each member by itself: all of an aggregate GCC would clear first (rep stos), for 4 of a planned pair's 70 ns.
    Asked(const PlanFollower::Request& request, Who by, Owner of, PlanFollower& plans)
        : Request(request), who(by), owner(of), proposal(plans.Ask(*this)) {}

    Who who;
    Owner owner;
    PlanFollower::Proposal proposal;
    const LifetimeRooms::Guess* guess = nullptr;  // null: nobody watches
  };

  // Why a proposed place cannot be taken.
  enum class Refusal : std::uint8_t {
    kNone,
    kInUse,
    kOrder,   // it is free, but not yet in this stream's order
    kBudget,  // nothing is in the way but that too many pages are held already
  };

  static std::uint64_t Key(CUdeviceptr address) noexcept { return address / kGranuleBytes; }

  // Under the lock.
  MemoryCounters CountersNow() const;
  void MarkBehindViews(std::vector<bool>* behind_views) const;
  IdleMemory IdleNow(std::vector<bool>* behind_views) const;
  Who Resolve(const std::optional<Order>& order);
  Who ResolveOther(StreamIndex stream);
  Who ResolveInRoomOfEnded(const std::optional<Order>& order, std::unique_lock<ShortLock>* lock,
                           ContextOnDemand* context);
  void FenceAllBehind(StreamIndex only) noexcept;
  Fence MemoryFence(Fence fence) const noexcept { return multi_stream_ ? fence : Fence{}; }
  bool TakeQuietRoom(const Asked& asked, Claim* claim);
  bool TakeHighest(const Asked& asked, Claim* claim);
  bool TakeRoom(const Asked& asked, Claim* claim);
  Refusal TakeProposed(const Asked& asked, Claim* claim);
  Refusal TakePlace(BlockPlace& place, Granule granules, StreamIndex stream, MemorySearch::Waits waits, Claim* claim);
  // The usual claim: a run within one fragment that exists and that the stream may use at once.
  bool TakeWhole(Run run, StreamIndex stream) noexcept {
    return space_->ClaimWhole(run, [&](Fence fence) {
      if (fence.stream == kAbsent) return false;
      return !multi_stream_ || streams_.Behind(stream, fence) || IsBehindExactly(stream, run);
    });
  }
  bool IsBehindExactly(StreamIndex stream, Run run) const noexcept;
  std::optional<Run> FindSorted(const Asked& asked) const;
  double Growth() const noexcept;
  bool Young() const noexcept;
  Run PlaceIn(Run room, Granule granules) const noexcept;
  std::optional<Run> FindLast(const Asked& asked) const;
  std::optional<Run> FindExisting(const Asked& asked);
  bool TakeExisting(const Asked& asked, Claim* claim);
  bool TakeBest(const Asked& asked, bool frugal, Claim* claim);
  void Take(Found found, Granule granules, StreamIndex stream, Claim* claim);
  void NoteRun(Run run, StreamIndex stream, Claim* claim) const;
  bool WithinLimit(PageNumber new_pages) const noexcept;
  // May a wait for another stream be inserted now?
  bool MayWait() const noexcept { return multi_stream_ && captures_in_progress.load(std::memory_order_relaxed) == 0; }
  void UndoClaim(const Claim& claim, const Who& who);
  // `freed` is the block's place in its stream's order, whether or not memory is fenced by it yet.
  void ReleaseBlock(CUdeviceptr address, const Block& block, Fence freed) noexcept {
    if (block.view != kNoView) return ReleaseView(block, freed);
    const Granule begin = BeginOf(address, kNoView);
    space_->Release({begin, begin + block.granules}, MemoryFence(freed));
  }
  void ReleaseView(const Block& block, Fence freed) noexcept;
  // Counts a block that has been taken out of the table as freed. `place`: in the order of `stream`. `freed` (optional)
  // receives what it was; written where it stays, for a copy of what has just been written is waited for.
  void CountFree(CUdeviceptr address, const Block& block, StreamIndex stream, Fence place, BlockInfo* freed);
  void Sweep();
  Allocation Publish(const Asked& asked, CUdeviceptr address, ViewIndex view, bool planned);
  Allocation PublishClaim(const Asked& asked, const Claim& claim, bool planned);
  // `freed_at`: the position of a free in its stream's order; 0: it has none, or is none.
  void Observe(Observation::Op op, CUdeviceptr address, const Block& block, StreamIndex stream, std::uint64_t call_site,
               std::uint64_t freed_at);
  BlockPlace PlaceOf(CUdeviceptr address, const Block& block) const;
  template <typename Visit>
  void ForEachRun(const Found& where, Granule granules, Visit visit) const;
  Granule UsedGranules() const noexcept { return static_cast<Granule>(counters_.used_bytes / kGranuleBytes); }
  CUdeviceptr AddressOf(Run run) const noexcept { return pages_.base() + std::size_t{run.begin} * kGranuleBytes; }
  // Where a block begins: in the base range, or in the first page of its view. As in a BlockPlace.
  Granule BeginOf(CUdeviceptr address, ViewIndex view) const noexcept {
    if (view != kNoView) return (*views_)[view].head;
    return static_cast<Granule>((address - pages_.base()) / kGranuleBytes);
  }

  // Without the lock.
  Allocation AllocateWatched(Asked asked, std::unique_lock<ShortLock> lock, ContextOnDemand* context);
  Allocation AllocateByClaim(Asked& asked, std::unique_lock<ShortLock> lock, ContextOnDemand* context);
  Allocation AllocateSlowly(const Asked& asked);
  CUresult CarryWithinBudget(Claim* claim, const Who& who);
  void HoldMoreIfAmple(bool exceeded, bool wished);
  std::uint64_t NowNs() const;
  void MakeTables();
  void MakeRoomToDefer();
  CUresult Defer(CUdeviceptr address, const Block& block);
  CUresult FreeWhenIdle(CUdeviceptr address, const Block& block);
  CUresult Carry(Claim* claim, const Who& who) noexcept;
  CUresult CarryAll(Claim* claim, const Who& who);
  CUresult CarryWaits(Claim* claim, const Who& who);
  std::optional<StreamTable::Marker> RecordBehind(Fence fence);
  CUresult CarryNewPages(Claim* claim);
  CUresult CarryView(Claim* claim);
  CUresult CarryExchange(Claim* claim);
  void RecordMarkers();
  void RecordMarker(StreamIndex stream);
  void PollMarkers();
  bool SynchroniseAll();
  // What is planned is spared for good reason: then work that is under way is waited for.
  enum class Spare : bool { kNothing, kPlanned };
  std::uint64_t GiveBackIdle(std::uint64_t keep_bytes, Spare spare);
  struct IdlePages;
  IdlePages ClaimIdle(std::uint64_t keep_bytes, Spare spare);
  void DropView(ViewIndex view);
  bool AreExecuted(const IdlePages& idle, Spare spare);
  void FinishDeferred();
  bool MapViews(PlanInForce* plan);
  void FindViews(PlanInForce* plan);
  void UnmapViews(std::uint64_t keep_pages, std::uint64_t most_pages);
  void EvictViews();
  struct Event {
    CUevent event = nullptr;
    CUcontext context = nullptr;  // it can be recorded on streams of this one alone, and ends with it:
    UsedContexts::Life life = UsedContexts::kNoLife;
  };
  Event NewEvent(CUcontext context, UsedContexts::Life life);
  void PutBack(const Event& event) noexcept;
  void PutBack(const StreamTable::Marker& marker) noexcept;
  NamedStream NameOf(StreamIndex stream) const;
  Ending TakeOutContext(CUcontext context, const StreamTable::Positions& executed) noexcept;
  bool WaitForContexts(Owner owner, CUresult* here);

  const DriverApi& driver_;
  const CUdevice device_;
  const int ordinal_;
  const MemoryPolicy policy_;

  mutable ShortLock mutex_;
  PageStore pages_;
  std::unique_ptr<FreeSpace> space_;
  std::unique_ptr<ViewTable> views_;
  StreamTable streams_;
  std::unique_ptr<MemorySearch> search_;
  QuietRoom quiet_room_;
  LargeRooms large_rooms_;
  LifetimeRooms lifetime_rooms_;
  TimeBudget budget_;
  StallTimer stalls_;
  FlatMap<Block> blocks_;
  MemoryCounters counters_;
  std::uint64_t next_number_ = 1;
  std::uint64_t view_clock_ = 0;
  std::uint64_t view_pages_ = 0;  // see MemoryPolicy
  unsigned giving_back_ = 0;      // trims that have claimed pages and not yet given them back
  bool multi_stream_ = false;
  StreamIndex first_stream_ = kNoStream;  // the only one with requests while !multi_stream_
  bool unordered_requests_ = false;       // requests without a stream have been seen
  UsedContexts contexts_;
  HandlesInUse in_use_;
  static inline constinit std::atomic<Ending> last_ending_{0};  // one context's in the whole process
  std::vector<Event> idle_events_;
  struct Deferred {
    CUdeviceptr address;
    Block block;
    std::uint64_t number;
  };
  std::uint64_t last_deferred_ = 0;
  std::vector<Deferred> deferred_;  // freed while not every context could be waited for

  std::atomic<std::uint64_t> refused_bytes_{0};
  Recorder* recorder_ = nullptr;
  SeenLog seen_;
  std::optional<PlanFollower> plans_;
};

}  // namespace stalloc::runtime
