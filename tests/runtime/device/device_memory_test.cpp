// DeviceMemory over the model driver: what it serves, holds, waits for and gives back; failures leave nothing behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <utility>

#include "device_memory_fixture.h"
#include "runtime/call_sites/call_site.h"

namespace stalloc::runtime {
namespace {

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

// `count` blocks of a page each, of which every second among the first sixteen is free again: a view of those eight has
// been used, is kept, and all that was done with it is known to be over.
struct DeviceMemoryViewTest : DeviceMemoryTest {
  void KeepViewOfEight(DeviceMemory& memory, int count, std::vector<CUdeviceptr>* blocks,
                       DeviceMemory::Allocation* view) {
    for (int i = 0; i < count; ++i) blocks->push_back(memory.Allocate(2 * kMiB, On(0), 0).address);
    for (int i = 0; i < 16; i += 2) ASSERT_EQ(memory.Free((*blocks)[i], On(0)), CUDA_SUCCESS);
    *view = memory.Allocate(16 * kMiB, On(0), 0);
    ASSERT_EQ(memory.Counters().views, 1u);
    device_.Touch(Stream(0), view->address, 16 * kMiB, view->number);
    ASSERT_EQ(memory.Free(view->address, On(0)), CUDA_SUCCESS);
    (void)memory.Trim(~std::uint64_t{0});  // marks how far the stream has been given work
    api_.cuStreamSynchronize(Stream(0));
    (void)memory.Trim(~std::uint64_t{0});  // sees that it is done
  }
};

// Eight of sixteen pages in a view, one of which somebody else takes: another is free, or has to be made first. Either
// way that one is mapped into the view, and the other seven are not mapped anew.
TEST_F(DeviceMemoryViewTest, ExchangesSinglePagesOfAViewWhetherTheirSuccessorsExistOrNot) {
  for (const bool exists : {true, false}) {
    auto memory = Make();
    std::vector<CUdeviceptr> blocks;
    DeviceMemory::Allocation view;
    ASSERT_NO_FATAL_FAILURE(KeepViewOfEight(*memory, 18, &blocks, &view));
    const auto taken = memory->Allocate(2 * kMiB, On(0), 0);
    if (exists) {
      ASSERT_EQ(memory->Free(blocks[17], On(0)), CUDA_SUCCESS);
    }

    const auto before = memory->Counters();
    const auto again = memory->Allocate(16 * kMiB, On(0), 0);
    EXPECT_EQ(again.address, view.address);
    EXPECT_EQ(memory->Counters().reserved_bytes, before.reserved_bytes + (exists ? 0 : 2 * kMiB));
    EXPECT_EQ(memory->Counters().map_calls, before.map_calls + (exists ? 1 : 2)) << "in the view, and where it is made";
    ExpectDisjoint(device_, {{taken.address, 2 * kMiB, taken.number}, {again.address, 16 * kMiB, again.number}});
    device_.Touch(Stream(0), again.address, 16 * kMiB, again.number);
  }
}

// A view of eight pages, and then a block of nine: the ninth is mapped behind the eight, at the same address, and the
// view serves blocks of both sizes from then on.
TEST_F(DeviceMemoryViewTest, LengthensAViewByWhatARequestHasMore) {
  for (const bool refused : {false, true}) {
    auto memory = Make();
    std::vector<CUdeviceptr> blocks;
    DeviceMemory::Allocation view;
    ASSERT_NO_FATAL_FAILURE(KeepViewOfEight(*memory, 20, &blocks, &view));
    ASSERT_EQ(memory->Free(blocks[18], On(0)), CUDA_SUCCESS);

    const auto before = memory->Counters();
    if (refused) {
      device_.fail_function = "cuMemMap";
      device_.fail_at = device_.calls["cuMemMap"] + 1;
    }
    const auto longer = memory->Allocate(18 * kMiB, On(0), 0);
    ASSERT_EQ(longer.result, CUDA_SUCCESS);
    EXPECT_EQ(memory->Counters().views, 1u) << "another one where the driver refused, and then the first is no more";
    if (!refused) {
      EXPECT_EQ(longer.address, view.address);
      EXPECT_EQ(memory->Counters().map_calls, before.map_calls + 1);
      EXPECT_EQ(memory->Counters().unmap_calls, before.unmap_calls);
    }
    EXPECT_EQ(memory->Counters().reserved_bytes, before.reserved_bytes);
    device_.Touch(Stream(0), longer.address, 18 * kMiB, longer.number);
    const auto mapped = memory->Counters().map_calls;
    for (const std::size_t pages : {8, 9}) {
      ASSERT_EQ(memory->Free(memory->Find(longer.address)->address, On(0)), CUDA_SUCCESS);
      const auto again = memory->Allocate(pages * 2 * kMiB, On(0), 0);
      EXPECT_EQ(again.address, longer.address);
      device_.Touch(Stream(0), again.address, pages * 2 * kMiB, again.number);
    }
    EXPECT_EQ(memory->Counters().map_calls, mapped);
  }
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
  memory->NoteEventRecorded(event, On(2), memory->NoteEventRecords(event, On(2)));
  memory->NoteStreamWaits(On(3), event, memory->RecordOf(event));
  std::vector<SeenLog::Entry> seen;
  bool lost = false;
  memory->TakeSeen(&seen, &lost);
  std::erase_if(seen, [](const SeenLog::Entry& entry) { return !entry.order; });
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

//  page 0      1     2      3     4      5
//  [b: view ] [live] [view] [live] [rest] [idle]     the view has a third page, which b does not need
TEST_F(DeviceMemoryTest, TrimGivesBackWhatIsBesideAPageBehindALiveView) {
  auto memory = Make();
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(memory->Allocate(2 * kMiB, On(0), 0).address);
  for (const int i : {0, 2, 4}) ASSERT_EQ(memory->Free(blocks[i], On(0)), CUDA_SUCCESS);
  const auto stitched = memory->Allocate(6 * kMiB, On(0), 0);
  ASSERT_EQ(memory->Free(stitched.address, On(0)), CUDA_SUCCESS);
  const auto b = memory->Allocate(4 * kMiB, On(0), 0);
  ASSERT_EQ(b.address, stitched.address);
  ASSERT_EQ(memory->Free(blocks[5], On(0)), CUDA_SUCCESS);
  device_.ExecuteAll();
  EXPECT_EQ(memory->Trim(0), 2 * kMiB);
  EXPECT_EQ(memory->Trim(0), 0u) << "the rest is behind the view";
  device_.Touch(Stream(0), b.address, 4 * kMiB, b.number);
}

// Sixteen blocks of a page each. UseView(k) makes room in every second page from the k-th on, has a block of three
// pages live there, behind a view, and fills the room again: each k has a view of its own, and all memory is in use
// between.
struct DeviceMemoryManyViewsTest : DeviceMemoryTest {
  static constexpr std::uint64_t kViewPages = 12;

  void SetUp() override {
    DeviceMemoryTest::SetUp();
    memory_ = Make({.view_pages = kViewPages});
    for (CUdeviceptr& block : blocks_) block = memory_->Allocate(2 * kMiB, On(0), 0).address;
    begin_pages_ = device_.mapped.size();
  }
  CUdeviceptr UseView(int k) {
    for (const int i : {k, k + 2, k + 4}) EXPECT_EQ(memory_->Free(blocks_[i], On(0)), CUDA_SUCCESS);
    const auto stitched = memory_->Allocate(6 * kMiB, On(0), 0);
    EXPECT_EQ(stitched.result, CUDA_SUCCESS);
    device_.Touch(Stream(0), stitched.address, 6 * kMiB, stitched.number);
    EXPECT_EQ(memory_->Free(stitched.address, On(0)), CUDA_SUCCESS);
    for (const int i : {k, k + 2, k + 4}) blocks_[i] = memory_->Allocate(2 * kMiB, On(0), 0).address;
    return stitched.address;
  }
  void LetAllBeDone() {
    (void)memory_->Trim(~std::uint64_t{0});  // marks how far the stream has been given work
    api_.cuStreamSynchronize(Stream(0));
    (void)memory_->Trim(~std::uint64_t{0});  // sees that it is done
  }
  std::size_t ViewPages() const { return device_.mapped.size() - begin_pages_; }

  std::unique_ptr<DeviceMemory> memory_;
  std::array<CUdeviceptr, 16> blocks_{};
  std::size_t begin_pages_ = 0;
};

TEST_F(DeviceMemoryManyViewsTest, TidyingUnmapsThoseUsedLeastRecently) {
  std::array<CUdeviceptr, 4> views{};
  for (int k = 0; k < 4; ++k) views[k] = UseView(k);
  EXPECT_EQ(UseView(0), views[0]) << "kept; now the second is the oldest";
  ASSERT_EQ(ViewPages(), kViewPages);
  LetAllBeDone();
  memory_->TidyViews();
  EXPECT_EQ(ViewPages(), kViewPages - 3);
  memory_->TidyViews();
  EXPECT_EQ(ViewPages(), kViewPages - 3) << "there is room for what comes next";
  const auto mapped = memory_->Counters().map_calls;
  for (const int k : {0, 2, 3}) EXPECT_EQ(UseView(k), views[k]);
  EXPECT_EQ(memory_->Counters().map_calls, mapped);
  UseView(1);
  EXPECT_EQ(memory_->Counters().map_calls, mapped + 3) << "this one went";
}

TEST_F(DeviceMemoryManyViewsTest, TidyingLeavesWhatPendingWorkMayUse) {
  for (int k = 0; k < 4; ++k) UseView(k);
  (void)memory_->Trim(~std::uint64_t{0});
  memory_->TidyViews();
  EXPECT_EQ(ViewPages(), kViewPages);
  LetAllBeDone();
  memory_->TidyViews();
  EXPECT_EQ(ViewPages(), kViewPages - 3);
}

// No thread tidies up here, as where nothing is planned.
TEST_F(DeviceMemoryManyViewsTest, RequestsUnmapWhatNobodyElseDid) {
  for (int round = 0; round < 3; ++round) {
    for (int k = 0; k < 12; ++k) {
      UseView(k);
      LetAllBeDone();
      EXPECT_LE(ViewPages(), kViewPages + 3) << "a request makes room for those before it";
    }
  }
  EXPECT_EQ(device_.calls["cuCtxSynchronize"], 0U) << "no request waited for the device";
}

TEST_F(DeviceMemoryManyViewsTest, WaitsForTheDeviceOnlyWhereTwiceAsMuchIsMapped) {
  // Nothing is known to be done.
  for (int k = 0; k < 9; ++k) UseView(k);
  EXPECT_EQ(ViewPages(), 27U);
  EXPECT_EQ(device_.calls["cuCtxSynchronize"], 0U);
  for (int k = 9; k < 12; ++k) UseView(k);
  EXPECT_GT(device_.calls["cuCtxSynchronize"], 0U);
  EXPECT_LE(ViewPages(), 2 * kViewPages + 3);
}

// A trim takes views out, may not wait for their work, and puts them back.
TEST_F(DeviceMemoryManyViewsTest, ATrimThatMayNotWaitForgetsNoPendingWork) {
  for (int k = 0; k < 4; ++k) UseView(k);
  for (const int i : {0, 2, 4}) ASSERT_EQ(memory_->Free(blocks_[i], On(0)), CUDA_SUCCESS);
  DeviceMemory::captures_in_progress = 1;
  EXPECT_EQ(memory_->Trim(0), 0U);
  DeviceMemory::captures_in_progress = 0;
  memory_->TidyViews();
  EXPECT_EQ(ViewPages(), kViewPages);
}

// Somebody is refused memory while views are being unmapped: their pages are the driver's again only behind that.
TEST_F(DeviceMemoryManyViewsTest, PagesAreKeptWhileAViewOfThemIsBeingUnmapped) {
  static DeviceMemory* trimmed = nullptr;
  static CUresult (*unmap)(CUdeviceptr, std::size_t) = nullptr;
  unmap = api_.cuMemUnmap;
  for (int k = 0; k < 4; ++k) UseView(k);
  for (const int i : {0, 2, 4}) ASSERT_EQ(memory_->Free(blocks_[i], On(0)), CUDA_SUCCESS);
  LetAllBeDone();
  trimmed = memory_.get();
  api_.cuMemUnmap = [](CUdeviceptr address, std::size_t bytes) {
    if (DeviceMemory* const memory = std::exchange(trimmed, nullptr)) {
      EXPECT_EQ(memory->ReleaseIdle(), 0U);
    }
    return unmap(address, bytes);
  };
  memory_->TidyViews();
  EXPECT_EQ(trimmed, nullptr);
  api_.cuMemUnmap = unmap;
  EXPECT_EQ(memory_->ReleaseIdle(), 6 * kMiB);
}

// The range of addresses for views is a multiple of the device's memory.
TEST_F(DeviceMemoryTest, ViewsDoNotUseUpTheAddressesOfASmallDevice) {
  device_.total_bytes = 64 * kMiB;
  auto memory = Make();
  std::array<CUdeviceptr, 30> blocks{};
  for (CUdeviceptr& block : blocks) block = memory->Allocate(2 * kMiB, On(0), 0).address;
  std::minstd_rand random(1);
  for (int round = 0; round < 500; ++round) {
    std::array<std::size_t, 30> order{};
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    const std::size_t count = 3 + random() % 12;
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(memory->Free(blocks[order[i]], On(0)), CUDA_SUCCESS);
    const auto stitched = memory->Allocate(count * 2 * kMiB, On(0), 0);
    ASSERT_EQ(stitched.result, CUDA_SUCCESS) << "round " << round;
    ASSERT_EQ(memory->Free(stitched.address, On(0)), CUDA_SUCCESS);
    for (std::size_t i = 0; i < count; ++i) blocks[order[i]] = memory->Allocate(2 * kMiB, On(0), 0).address;
  }
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

// Under a trace a stream is known by its events alone, too: nothing was freed in its order.
TEST_F(DeviceMemoryTest, ADestroyedStreamThatMadeNoRequestTakesNothingOver) {
  Recorder recorder;
  auto memory = Make();
  memory->SetRecorder(&recorder);
  const auto a = memory->Allocate(8 * kMiB, On(1), 0);
  device_.Touch(Stream(1), a.address, 8 * kMiB, a.number);
  ASSERT_EQ(memory->Free(a.address, On(1)), CUDA_SUCCESS);
  const auto event = reinterpret_cast<CUevent>(0x77);
  ASSERT_NE(memory->NoteEventRecorded(event, On(2), memory->NoteEventRecords(event, On(2))).stream, kNoStream);
  memory->NoteStreamDestroyed(On(2));
  const auto b = memory->Allocate(8 * kMiB, On(3), 0);
  device_.Touch(Stream(3), b.address, 8 * kMiB, b.number);
  EXPECT_EQ(b.address, a.address);
  EXPECT_EQ(memory->Counters().waits_inserted, 1u);
}

TEST_F(DeviceMemoryTest, TheBlocksOfAContextEndWithIt) {
  const auto memory = Make();
  std::vector<CUdeviceptr> ending;
  std::vector<CUdeviceptr> staying;
  for (std::size_t i = 0; i < 60; ++i) {
    const auto owner = static_cast<DeviceMemory::Owner>(i % 3);  // 0: the device's pool
    const auto made = memory->Allocate((i + 1) * 1000, std::nullopt, 0, nullptr, owner);
    ASSERT_EQ(made.result, CUDA_SUCCESS);
    (owner == 2 ? ending : staying).push_back(made.address);
  }
  std::vector<CUdeviceptr> freed;
  for (const DeviceMemory::BlockInfo& block : memory->FreeAllOf(2)) {
    freed.push_back(block.address);
    EXPECT_EQ(block.size_bytes, block.number * 1000);
  }
  std::ranges::sort(freed);
  std::ranges::sort(ending);
  EXPECT_EQ(freed, ending);
  EXPECT_EQ(memory->Counters().frees, 20u);
  EXPECT_TRUE(memory->FreeAllOf(2).empty());
  for (const CUdeviceptr address : ending) EXPECT_EQ(memory->Free(address, std::nullopt), CUDA_ERROR_INVALID_VALUE);
  for (const CUdeviceptr address : staying) EXPECT_EQ(memory->Free(address, std::nullopt), CUDA_SUCCESS);
  EXPECT_EQ(memory->Counters().live_bytes, 0u);
}

}  // namespace
}  // namespace stalloc::runtime
