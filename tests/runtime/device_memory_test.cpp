// DeviceMemory over the model driver: two live blocks never share a byte, memory is never reused before the work that
// could still touch it, failures leave nothing behind, and it holds little more than what is live.
#include "runtime/device_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <random>

#include "model_driver.h"
#include "runtime/call_site.h"

namespace stalloc::runtime {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

CUstream Stream(std::uintptr_t n) { return reinterpret_cast<CUstream>(n * 16); }
DeviceMemory::Order On(std::uintptr_t n) { return {Stream(n), 0}; }

class DeviceMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    model::device = &device_;
    api_ = model::Api();
  }
  void TearDown() override {
    for (const std::string& error : device_.errors) ADD_FAILURE() << error;
    DeviceMemory::captures_in_progress = 0;
  }
  std::unique_ptr<DeviceMemory> Make(MemoryPolicy policy = {}) {
    auto memory = std::make_unique<DeviceMemory>(api_, 0, 0, policy);
    EXPECT_EQ(memory->Initialise(), CUDA_SUCCESS);
    return memory;
  }
  // The program orders one stream behind what another has been given so far.
  void OrderBehind(DeviceMemory* memory, std::uintptr_t waiting, std::uintptr_t other) {
    CUevent event = nullptr;
    api_.cuEventCreate(&event, 0);
    api_.cuEventRecord(event, Stream(other));
    memory->NoteEventRecorded(event, On(other));
    api_.cuStreamWaitEvent(Stream(waiting), event, 0);
    memory->NoteStreamWaits(On(waiting), event);
  }

  model::Device device_;
  DriverApi api_;
};

struct Live {
  CUdeviceptr address;
  std::size_t bytes;
  std::uint64_t number;
};

// Live blocks by the physical bytes they occupy, looked up through the model's mappings.
void ExpectDisjoint(const model::Device& device, const std::vector<Live>& live) {
  std::map<std::pair<std::uint64_t, std::size_t>, std::pair<std::size_t, std::uint64_t>> runs;  // (page, begin) -> end
  for (const Live& block : live) {
    for (CUdeviceptr page = block.address / model::kPage * model::kPage; page < block.address + block.bytes;
         page += model::kPage) {
      const auto mapped = device.mapped.find(page);
      ASSERT_NE(mapped, device.mapped.end());
      const std::size_t begin = std::max(page, block.address) - page;
      const std::size_t end = std::min(page + model::kPage, block.address + block.bytes) - page;
      const bool inserted = runs.emplace(std::pair{mapped->second, begin}, std::pair{end, block.number}).second;
      ASSERT_TRUE(inserted) << "blocks share a byte";
    }
  }
  for (auto it = runs.begin(); it != runs.end(); ++it) {
    const auto next = std::next(it);
    if (next == runs.end() || next->first.first != it->first.first) continue;
    ASSERT_LE(it->second.first, next->first.second)
        << "blocks " << it->second.second << " and " << next->second.second << " share a byte";
  }
}

TEST_F(DeviceMemoryTest, ServesAlignedDisjointBlocksAndTakesThemBack) {
  auto memory = Make();
  const auto a = memory->Allocate(1000, On(0), 0);
  const auto b = memory->Allocate(1000, On(0), 0);
  ASSERT_EQ(a.result, CUDA_SUCCESS);
  EXPECT_EQ(a.address % 512, 0u);
  EXPECT_EQ(b.address - a.address, 1024u);
  EXPECT_EQ(memory->Free(a.address + 512, On(0)), CUDA_ERROR_INVALID_VALUE) << "interior";
  EXPECT_EQ(memory->Free(a.address, On(0)), CUDA_SUCCESS);
  EXPECT_EQ(memory->Free(a.address, On(0)), CUDA_ERROR_INVALID_VALUE) << "double free";
  const MemoryCounters counters = memory->Counters();
  EXPECT_EQ(counters.live_bytes, 1000u);
  EXPECT_EQ(counters.peak_live_bytes, 2000u);
  EXPECT_EQ(counters.reserved_bytes, 2 * kMiB);
}

// Free pages  A.C.E  of a device that is full: a block of two pages fits nowhere, a view of two pages does.
TEST_F(DeviceMemoryTest, StitchesFreePagesInsteadOfGrowing) {
  auto memory = Make();
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(memory->Allocate(2 * kMiB, On(0), 0).address);
  for (const int i : {0, 2, 4}) ASSERT_EQ(memory->Free(blocks[i], On(0)), CUDA_SUCCESS);
  const auto stitched = memory->Allocate(6 * kMiB, On(0), 0);
  ASSERT_EQ(stitched.result, CUDA_SUCCESS);
  EXPECT_EQ(memory->Counters().reserved_bytes, 12 * kMiB) << "no page was added";
  EXPECT_EQ(memory->Counters().views, 1u);
  const auto mapped = memory->Counters().map_calls;
  ASSERT_EQ(memory->Free(stitched.address, On(0)), CUDA_SUCCESS);
  EXPECT_EQ(memory->Allocate(6 * kMiB, On(0), 0).address, stitched.address) << "the view was kept";
  EXPECT_EQ(memory->Counters().map_calls, mapped);
}

//  page 0   1   2   3   4   5    6
//       [ ]  .  [ ]  .  [ ] [ ] [s|.]     three pages and a half: 1, 3, a new one, and what is free of 6
TEST_F(DeviceMemoryTest, StitchesPartsOfPagesInsteadOfHoldingOneMore) {
  auto memory = Make();
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(memory->Allocate(2 * kMiB, On(0), 0).address);
  const auto small = memory->Allocate(kMiB, On(0), 0);
  for (const int i : {1, 3}) ASSERT_EQ(memory->Free(blocks[i], On(0)), CUDA_SUCCESS);
  const auto stitched = memory->Allocate(7 * kMiB, On(0), 0);
  ASSERT_EQ(stitched.result, CUDA_SUCCESS);
  EXPECT_EQ(memory->Counters().reserved_bytes, 16 * kMiB);
  ExpectDisjoint(device_, {{small.address, kMiB, small.number}, {stitched.address, 7 * kMiB, stitched.number}});
  const auto mapped = memory->Counters().map_calls;
  ASSERT_EQ(memory->Free(stitched.address, On(0)), CUDA_SUCCESS);
  EXPECT_EQ(memory->Allocate(7 * kMiB, On(0), 0).address, stitched.address) << "the view was kept";
  EXPECT_EQ(memory->Counters().map_calls, mapped);
}

// Six pages, every other one free, and a seventh with a small block; a view of the free ones, then a shorter block in
// it: [view, 1st] [ block ] [view, 2nd] [ block ] [view, 3rd: idle] [ block ] [small......]
TEST_F(DeviceMemoryTest, ASnapshotSaysWhereIdleMemoryLiesAndWhoseTheLiveIs) {
  auto memory = Make();
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(memory->Allocate(2 * kMiB, On(0), 8).address);
  (void)memory->Allocate(1000, On(0), 7);
  for (const int i : {0, 2, 4}) ASSERT_EQ(memory->Free(blocks[i], On(0)), CUDA_SUCCESS);
  const auto view = memory->Allocate(6 * kMiB, On(0), 9);
  ASSERT_EQ(memory->Counters().views, 1u);

  MemorySnapshot snapshot = memory->Snapshot();
  EXPECT_EQ(snapshot.idle.remainder_bytes, 2 * kMiB - 1024) << "beside the small block";
  EXPECT_EQ(snapshot.idle.usable_bytes, 0u);
  EXPECT_EQ(snapshot.idle.view_bytes, 0u);
  ASSERT_EQ(snapshot.sites.size(), 3u);
  EXPECT_EQ(snapshot.sites[0].blocks, 3u);
  EXPECT_EQ(snapshot.sites[1].bytes, 6 * kMiB);
  EXPECT_EQ(snapshot.sites[2].tag, SiteTag(7));

  // In the view of three pages a block of two.
  ASSERT_EQ(memory->Free(view.address, On(0)), CUDA_SUCCESS);
  ASSERT_EQ(memory->Allocate(4 * kMiB, On(0), 9).address, view.address);
  snapshot = memory->Snapshot();
  EXPECT_EQ(snapshot.idle.view_bytes, 2 * kMiB);

  // Freed on a stream whose work is still pending, while there is another stream.
  (void)memory->Allocate(512, On(1), 0);
  device_.Touch(Stream(0), blocks[1], 2 * kMiB, 1);
  ASSERT_EQ(memory->Free(blocks[1], On(0)), CUDA_SUCCESS);
  EXPECT_EQ(memory->Snapshot().idle.ordered_bytes, 2 * kMiB);
  const MemoryCounters counters = memory->Counters();
  const IdleMemory idle = memory->Snapshot().idle;
  EXPECT_EQ(idle.usable_bytes + idle.ordered_bytes + idle.remainder_bytes + idle.view_bytes,
            counters.reserved_bytes - counters.used_bytes)
      << "every idle byte has one reason";
}

TEST_F(DeviceMemoryTest, AnotherStreamWaitsOnlyWhenTheAlternativeIsMoreMemory) {
  auto memory = Make();
  const auto a = memory->Allocate(8 * kMiB, On(1), 0);
  (void)memory->Allocate(512, On(2), 0);
  device_.Touch(Stream(1), a.address, 8 * kMiB, a.number);
  ASSERT_EQ(memory->Free(a.address, On(1)), CUDA_SUCCESS);
  const auto b = memory->Allocate(8 * kMiB, On(2), 0);
  device_.Touch(Stream(2), b.address, 8 * kMiB, b.number);
  EXPECT_EQ(memory->Counters().waits_inserted, 1u);
  EXPECT_LE(memory->Counters().reserved_bytes, 12 * kMiB);
}

// Stream 2 is behind stream 1 because of a wait of the allocator's; what the program then orders behind stream 2 must
// not be taken to be behind stream 1 by the program's doing: another plan may do without the wait.
TEST_F(DeviceMemoryTest, OrderThatFollowsFromAnInsertedWaitIsNotTheProgramsOwn) {
  auto memory = Make();
  memory->SetObserving(true);
  const auto a = memory->Allocate(8 * kMiB, On(1), 0);
  const auto kept = memory->Allocate(512, On(2), 0);
  (void)memory->Allocate(512, On(3), 0);
  device_.Touch(Stream(1), a.address, 8 * kMiB, a.number);
  ASSERT_EQ(memory->Free(a.address, On(1)), CUDA_SUCCESS);
  (void)memory->Allocate(8 * kMiB, On(2), 0);
  ASSERT_EQ(memory->Counters().waits_inserted, 1u);
  ASSERT_EQ(memory->Free(kept.address, On(2)), CUDA_SUCCESS);
  const auto event = reinterpret_cast<CUevent>(0x77);
  memory->NoteEventRecorded(event, On(2));
  memory->NoteStreamWaits(On(3), event);
  std::vector<DeviceMemory::Seen> seen;
  bool lost = false;
  memory->TakeSeen(&seen, &lost);
  std::erase_if(seen, [](const DeviceMemory::Seen& entry) { return !entry.order; });
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].fence.stream, 2u);
}

TEST_F(DeviceMemoryTest, OutOfMemoryLeavesNothingBehind) {
  device_.total_bytes = 64 * kMiB;
  auto memory = Make();
  const auto a = memory->Allocate(40 * kMiB, On(0), 0);
  ASSERT_EQ(a.result, CUDA_SUCCESS);
  const MemoryCounters before = memory->Counters();
  EXPECT_EQ(memory->Allocate(40 * kMiB, On(0), 0).result, CUDA_ERROR_OUT_OF_MEMORY);
  const MemoryCounters after = memory->Counters();
  EXPECT_EQ(after.live_bytes, before.live_bytes);
  EXPECT_EQ(after.reserved_bytes, before.reserved_bytes);
  EXPECT_EQ(device_.used_bytes, before.reserved_bytes);
  EXPECT_EQ(memory->Allocate(24 * kMiB, On(0), 0).result, CUDA_SUCCESS) << "what is left can still be had";
}

TEST_F(DeviceMemoryTest, HonoursTheLimit) {
  auto memory = Make({.growth = 1.0, .limit_bytes = 16 * kMiB});
  EXPECT_EQ(memory->Allocate(16 * kMiB, On(0), 0).result, CUDA_SUCCESS);
  EXPECT_EQ(memory->Allocate(512, On(0), 0).result, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_LE(device_.used_bytes, 16 * kMiB);
}

TEST_F(DeviceMemoryTest, TrimGivesIdlePagesBackOnceTheirWorkIsDone) {
  auto memory = Make();
  const auto a = memory->Allocate(32 * kMiB, On(0), 0);
  const auto b = memory->Allocate(2 * kMiB, On(0), 0);
  device_.Touch(Stream(0), a.address, 32 * kMiB, a.number);
  ASSERT_EQ(memory->Free(a.address, On(0)), CUDA_SUCCESS);
  EXPECT_EQ(memory->Trim(0), 0u) << "the work that uses it is still queued";
  device_.ExecuteAll();
  EXPECT_EQ(memory->Trim(0), 32 * kMiB);
  EXPECT_EQ(device_.used_bytes, 2 * kMiB);
  EXPECT_EQ(memory->Counters().reserved_bytes, 2 * kMiB);
  const auto c = memory->Allocate(32 * kMiB, On(0), 0);
  ASSERT_EQ(c.result, CUDA_SUCCESS);
  device_.Touch(Stream(0), c.address, 32 * kMiB, c.number);
  device_.Touch(Stream(0), b.address, 2 * kMiB, b.number);
}

TEST_F(DeviceMemoryTest, TrimThatMayNotWaitKeepsItsViews) {
  auto memory = Make();
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(memory->Allocate(2 * kMiB, On(0), 0).address);
  for (const int i : {0, 2, 4}) ASSERT_EQ(memory->Free(blocks[i], On(0)), CUDA_SUCCESS);
  const auto stitched = memory->Allocate(6 * kMiB, On(0), 0);
  device_.Touch(Stream(0), stitched.address, 6 * kMiB, stitched.number);
  ASSERT_EQ(memory->Free(stitched.address, On(0)), CUDA_SUCCESS);
  DeviceMemory::captures_in_progress = 1;
  EXPECT_EQ(memory->Trim(0), 0u) << "the work that uses the view cannot be waited for during a capture";
  DeviceMemory::captures_in_progress = 0;
  const auto mapped = memory->Counters().map_calls;
  EXPECT_EQ(memory->Allocate(6 * kMiB, On(0), 0).address, stitched.address);
  EXPECT_EQ(memory->Counters().map_calls, mapped);
}

TEST_F(DeviceMemoryTest, AFreeDuringACaptureIsHeldBack) {
  auto memory = Make();
  const auto a = memory->Allocate(2 * kMiB, On(0), 0);
  DeviceMemory::captures_in_progress = 1;
  EXPECT_EQ(memory->Free(a.address, On(0)), CUDA_SUCCESS);
  const auto b = memory->Allocate(2 * kMiB, On(0), 0);
  EXPECT_NE(b.address, a.address) << "the capture may still use it";
  DeviceMemory::captures_in_progress = 0;
}

// A pattern of these sizes, one after the other, the first of them allocation `first`; slots and order are to be filled
// in.
std::shared_ptr<PlanInForce> PlanOf(const std::vector<std::uint64_t>& sizes, std::uint64_t first) {
  Pattern pattern;
  pattern.period = static_cast<std::int64_t>(2 * sizes.size());
  pattern.first_block = first;
  pattern.last_block = first + sizes.size();
  pattern.exact = true;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    PatternRequest r;
    r.size_bytes = sizes[i];
    r.begin = static_cast<std::int64_t>(2 * i);
    r.end = r.begin + 1;
    pattern.requests.push_back(r);
  }
  auto plan = std::make_shared<PlanInForce>();
  plan->prepared = Matcher::Prepare(pattern);
  plan->slots.resize(sizes.size());
  plan->order.resize(sizes.size());
  plan->budget_bytes = 256 * kMiB;
  return plan;
}

// Two streams have made a request each; the next two take turns in one slot.
std::shared_ptr<PlanInForce> OneSlotForTwo() {
  auto plan = PlanOf({4 * kMiB, 3 * kMiB}, 3);
  for (BlockPlace& slot : plan->slots) {
    slot.kind = BlockPlace::Kind::kRun;
    slot.begin = kPageGranules;
  }
  return plan;
}

// The plan marks the first one's free, so that the second waits for that and not for what the first has queued since.
TEST_F(DeviceMemoryTest, APlannedSlotWaitsForTheFreeThatThePlanNames) {
  auto memory = Make();
  (void)memory->Allocate(512, On(1), 0);
  (void)memory->Allocate(512, On(2), 0);
  auto plan = OneSlotForTwo();
  plan->order[0].waited_for = true;
  plan->order[1].waits = true;
  ASSERT_TRUE(memory->Install(plan, DeviceMemory::When::kNow));

  const auto a = memory->Allocate(4 * kMiB, On(1), 0);
  ASSERT_TRUE(a.planned);
  device_.Touch(Stream(1), a.address, 4 * kMiB, a.number);
  ASSERT_EQ(memory->Free(a.address, On(1)), CUDA_SUCCESS);
  const std::uint64_t at_free = device_.submitted[Stream(1)];
  device_.submitted[Stream(1)] += 100;
  const auto b = memory->Allocate(3 * kMiB, On(2), 0);
  EXPECT_TRUE(b.planned);
  EXPECT_EQ(b.address, a.address);
  device_.Touch(Stream(2), b.address, 3 * kMiB, b.number);
  EXPECT_EQ(memory->Counters().waits_inserted, 1u);
  EXPECT_EQ(device_.clocks[Stream(2)][Stream(1)], at_free);
}

//  page 1                page 2
//  [a, c: one slot    ] [b                 ]     a, b on one stream, c on another that is ordered behind a's free alone
TEST_F(DeviceMemoryTest, ASlotIsNotRefusedForTheLaterFreeOfItsNeighbour) {
  auto memory = Make();
  (void)memory->Allocate(512, On(1), 0);
  (void)memory->Allocate(512, On(2), 0);
  auto plan = PlanOf({2 * kMiB, 2 * kMiB, 2 * kMiB}, 3);
  for (std::size_t i = 0; i < 3; ++i) {
    plan->slots[i].kind = BlockPlace::Kind::kRun;
    plan->slots[i].begin = (i == 1 ? 2 : 1) * kPageGranules;
  }
  ASSERT_TRUE(memory->Install(plan, DeviceMemory::When::kNow));
  const auto a = memory->Allocate(2 * kMiB, On(1), 0);
  const auto b = memory->Allocate(2 * kMiB, On(1), 0);
  ASSERT_TRUE(a.planned && b.planned);
  device_.Touch(Stream(1), a.address, 2 * kMiB, a.number);
  ASSERT_EQ(memory->Free(a.address, On(1)), CUDA_SUCCESS);
  OrderBehind(memory.get(), 2, 1);
  device_.Touch(Stream(1), b.address, 2 * kMiB, b.number);
  ASSERT_EQ(memory->Free(b.address, On(1)), CUDA_SUCCESS);

  const auto c = memory->Allocate(2 * kMiB, On(2), 0);
  EXPECT_TRUE(c.planned);
  EXPECT_EQ(c.address, a.address);
  device_.Touch(Stream(2), c.address, 2 * kMiB, c.number);
  EXPECT_EQ(memory->Counters().waits_inserted, 0u);
  // b's place is not behind b's free.
  const auto d = memory->Allocate(2 * kMiB, On(2), 0);
  ASSERT_EQ(d.address, b.address);
  device_.Touch(Stream(2), d.address, 2 * kMiB, d.number);
  EXPECT_EQ(memory->Counters().waits_inserted, 1u);
}

TEST_F(DeviceMemoryTest, APlannedSlotIsNotWaitedForWhereThePlanDoesNotSaySo) {
  auto memory = Make();
  (void)memory->Allocate(512, On(1), 0);
  (void)memory->Allocate(512, On(2), 0);
  ASSERT_TRUE(memory->Install(OneSlotForTwo(), DeviceMemory::When::kNow));
  const auto a = memory->Allocate(4 * kMiB, On(1), 0);
  device_.Touch(Stream(1), a.address, 4 * kMiB, a.number);
  ASSERT_EQ(memory->Free(a.address, On(1)), CUDA_SUCCESS);
  EXPECT_FALSE(memory->Allocate(3 * kMiB, On(2), 0).planned);
  EXPECT_EQ(memory->Counters().slot_busy, 1u);
}

// The handle of a destroyed stream comes back for a new one; memory freed on the old one must not look like its own.
TEST_F(DeviceMemoryTest, APlannedViewOfPagesThatDidNotExistIsMappedOnce) {
  auto memory = Make();
  auto plan = PlanOf({4 * kMiB}, 1);
  plan->slots[0].kind = BlockPlace::Kind::kPages;
  plan->slots[0].pages = {3, 1};
  ASSERT_TRUE(memory->Install(plan, DeviceMemory::When::kNow));
  const auto first = memory->Allocate(4 * kMiB, On(0), 0);
  ASSERT_TRUE(first.planned);
  ASSERT_EQ(memory->Free(first.address, On(0)), CUDA_SUCCESS);
  const auto mapped = memory->Counters().map_calls;
  const auto again = memory->Allocate(4 * kMiB, On(0), 0);
  EXPECT_TRUE(again.planned);
  EXPECT_EQ(again.address, first.address);
  EXPECT_EQ(memory->Counters().map_calls, mapped);
}

//  page 0 1 2 3 4 5 6 7
//       . . . . [idle . ]     a plan of four pages, from page 0; what is held lies behind it
TEST_F(DeviceMemoryTest, ABlockThatStaysGetsItsPlaceThoughAsMuchIsHeldElsewhere) {
  auto memory = Make();
  auto plan = PlanOf({512}, 1);
  plan->budget_bytes = 8 * kMiB;
  plan->end = plan->online_from = 4 * kPageGranules;
  BlockPlace bottom;
  bottom.kind = BlockPlace::Kind::kRun;
  plan->persistent[PlanInForce::PersistentKey(7, 6 * kMiB)].places = {{0, bottom}};
  plan->persistent_left = 1;
  ASSERT_TRUE(memory->Install(plan, DeviceMemory::When::kNow));
  const auto early = memory->Allocate(8 * kMiB, On(0), 0);
  device_.Touch(Stream(0), early.address, 8 * kMiB, early.number);
  ASSERT_EQ(memory->Free(early.address, On(0)), CUDA_SUCCESS);
  const auto kept = memory->Allocate(6 * kMiB, On(0), 7);
  EXPECT_TRUE(kept.planned);
  EXPECT_EQ(kept.address + 8 * kMiB, early.address);
  EXPECT_EQ(memory->Counters().reserved_bytes, 6 * kMiB) << "the idle pages behind the plan were given back";
  EXPECT_EQ(memory->Counters().peak_reserved_bytes, 8 * kMiB);
}

TEST_F(DeviceMemoryTest, ADestroyedStreamsMemoryIsNotLostAndNotEarly) {
  auto memory = Make();
  const auto a = memory->Allocate(8 * kMiB, On(1), 0);
  device_.Touch(Stream(1), a.address, 8 * kMiB, a.number);
  ASSERT_EQ(memory->Free(a.address, On(1)), CUDA_SUCCESS);
  memory->NoteStreamDestroyed(On(1));
  const auto b = memory->Allocate(8 * kMiB, On(1), 0);
  EXPECT_EQ(memory->Counters().waits_inserted, 1u) << "the new stream waits for the old one's last work";
  ASSERT_EQ(memory->Free(b.address, On(1)), CUDA_SUCCESS);
  device_.ExecuteAll();
  EXPECT_EQ(memory->ReleaseIdle(), 8 * kMiB) << "nothing of the old stream's was lost";
}

// Random programs: several streams that lag, frees on other streams and without a stream, waits of the program's own,
// failures, trims. Whatever happens, the model finds no early reuse and no shared byte.
class DeviceMemoryStress : public DeviceMemoryTest, public ::testing::WithParamInterface<int> {};

TEST_P(DeviceMemoryStress, NeverSharesAByteAndNeverReusesEarly) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  auto pick = [&](std::size_t n) { return random() % n; };
  const std::size_t streams = 1 + pick(4);
  device_.total_bytes = 256 * kMiB;
  auto memory = Make({.growth = 1.0 + 0.1 * static_cast<double>(pick(3)), .limit_bytes = ~std::uint64_t{0}});
  std::vector<Live> live;
  for (int step = 0; step < 1500; ++step) {
    const std::uintptr_t s = pick(streams);
    if (live.empty() || pick(100) < 52) {
      static constexpr std::size_t kSizes[] = {1, 700, 4096, 300'000, 2 * kMiB, 3'000'000, 9 * kMiB, 17 * kMiB};
      const std::size_t bytes = kSizes[pick(std::size(kSizes))] + pick(600);
      if (pick(12) == 0) {
        static constexpr const char* kFunctions[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuEventCreate",
                                                     "cuEventRecord"};
        device_.fail_function = kFunctions[pick(std::size(kFunctions))];
        device_.fail_at = device_.calls[device_.fail_function] + 1 + pick(3);
      }
      const bool ordered = pick(20) != 0;
      const auto made = ordered ? memory->Allocate(bytes, On(s), 0) : memory->Allocate(bytes, std::nullopt, 0);
      device_.fail_function.clear();
      if (made.result != CUDA_SUCCESS) continue;
      // Without an order the block may be used on any stream at once.
      const std::uintptr_t user = ordered ? s : pick(streams);
      device_.Touch(Stream(user), made.address, bytes, made.number);
      live.push_back({made.address, bytes, made.number});
    } else {
      const std::size_t i = pick(live.size());
      const Live block = live[i];
      live[i] = live.back();
      live.pop_back();
      if (pick(15) == 0) {
        EXPECT_EQ(memory->Free(block.address, std::nullopt), CUDA_SUCCESS);
      } else {
        // The program orders the freeing stream behind every use, as CUDA asks of it.
        for (std::uintptr_t other = 0; other < streams; ++other)
          if (other != s) OrderBehind(memory.get(), s, other);
        EXPECT_EQ(memory->Free(block.address, On(s)), CUDA_SUCCESS);
      }
    }
    if (pick(4) == 0) device_.Execute(Stream(pick(streams)), 1 + pick(30));
    if (pick(200) == 0) memory->Trim(pick(64) * kMiB);
    if (pick(300) == 0) memory->ReleaseIdle();
    if (step % 100 == 0) ExpectDisjoint(device_, live);
    ASSERT_TRUE(device_.errors.empty()) << "seed " << GetParam() << " step " << step << ": " << device_.errors.front();
  }
  ExpectDisjoint(device_, live);
  EXPECT_EQ(device_.used_bytes, memory->Counters().reserved_bytes);
}

// A plan is advice, and may be as bad as it likes: slots that overlap, waits where there is nothing to wait for and
// none where there is. The program repeats itself on several streams that lag, and orders them now and then.
TEST_P(DeviceMemoryStress, APlanCannotMakeItShareAByteOrReuseEarly) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::size_t streams = 1 + pick(3);
  auto memory = Make();
  struct Step {
    std::size_t request;
    bool free;
  };
  std::vector<std::uint64_t> sizes;
  std::vector<std::uintptr_t> on;
  std::vector<Step> steps;
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < 24; ++i) {
    sizes.push_back(1 + pick(6 * kMiB));
    on.push_back(pick(streams));
    steps.push_back({i, false});
    open.push_back(i);
    while (!open.empty() && pick(2) == 0) {
      const std::size_t k = pick(open.size());
      steps.push_back({open[k], true});
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }
  for (const std::size_t i : open) steps.push_back({i, true});

  std::vector<Live> live(sizes.size());
  for (int iteration = 0; iteration < 40; ++iteration) {
    if (iteration % 10 == 1) {
      auto plan = PlanOf(sizes, static_cast<std::uint64_t>(iteration) * sizes.size() + 1);
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        BlockPlace& slot = plan->slots[i];
        if (pick(4) == 0) {
          slot.kind = BlockPlace::Kind::kPages;
          std::vector<PageNumber> pages(24);
          std::iota(pages.begin(), pages.end(), 0);
          std::shuffle(pages.begin(), pages.end(), random);
          slot.begin = static_cast<Granule>(pick(2) * pick(kPageGranules));
          slot.pages.assign(pages.begin(), pages.begin() + PagesUnder(slot.begin, GranulesOf(sizes[i])));
        } else {
          slot.kind = BlockPlace::Kind::kRun;
          slot.begin = static_cast<Granule>(pick(20 * kPageGranules));
        }
        plan->order[i] = {pick(2) == 0, pick(2) == 0};
      }
      ASSERT_TRUE(memory->Install(plan, DeviceMemory::When::kNow));
    }
    for (const Step& step : steps) {
      const auto order = On(on[step.request]);
      Live& block = live[step.request];
      if (step.free) {
        EXPECT_EQ(memory->Free(block.address, order), CUDA_SUCCESS);
        block.bytes = 0;
      } else {
        const auto made = memory->Allocate(sizes[step.request], order, 0);
        ASSERT_EQ(made.result, CUDA_SUCCESS);
        device_.Touch(order.stream, made.address, sizes[step.request], made.number);
        block = {made.address, sizes[step.request], made.number};
      }
      if (pick(6) == 0) device_.Execute(Stream(pick(streams)), 1 + pick(10));
      const std::uintptr_t waiting = pick(streams);
      const std::uintptr_t other = pick(streams);
      if (waiting != other && pick(4) == 0) OrderBehind(memory.get(), waiting, other);
      ASSERT_TRUE(device_.errors.empty()) << "seed " << GetParam() << ": " << device_.errors.front();
    }
    if (iteration % 8 == 3) memory->Trim(0);
    std::vector<Live> now;
    std::copy_if(live.begin(), live.end(), std::back_inserter(now), [](const Live& block) { return block.bytes != 0; });
    ExpectDisjoint(device_, now);
  }
  EXPECT_GT(memory->Counters().planned_requests, 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, DeviceMemoryStress, ::testing::Range(1, 41));

}  // namespace
}  // namespace stalloc::runtime
