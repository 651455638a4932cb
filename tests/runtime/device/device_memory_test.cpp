// DeviceMemory over the model driver: what it serves, holds, waits for and gives back; failures leave nothing behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

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

TEST_F(DeviceMemoryTest, ServesADeviceOfATebibyte) {
  device_.total_bytes = std::size_t{1} << 40;
  auto memory = Make({});
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 3; ++i) {
    const auto made = memory->Allocate(300ULL << 30, On(0), 0);
    ASSERT_EQ(made.result, CUDA_SUCCESS) << i;
    blocks.push_back(made.address);
  }
  EXPECT_EQ(memory->Allocate(300ULL << 30, On(0), 0).result, CUDA_ERROR_OUT_OF_MEMORY);
  for (const CUdeviceptr block : blocks) EXPECT_EQ(memory->Free(block, On(0)), CUDA_SUCCESS);
}

// Six pages, every other one free, and a seventh with a small block; a view of the free ones, then a shorter block in
// it: [view, 1st] [ block ] [view, 2nd] [ block ] [view, 3rd: idle] [ block ] [small......]
TEST_F(DeviceMemoryTest, ASnapshotSaysWhereIdleMemoryLiesAndWhoseTheLiveIs) {
  auto memory = Make();
  const std::vector<CUdeviceptr> blocks = Pages(memory.get(), 6, 8);
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

// A room that begins inside a page, and a block of ten pages: [taken] [.5 page][room of 20 pages] [taken ...]
TEST_F(DeviceMemoryTest, WhileTheProgramIsYoungAPartOfAPageIsNotShutIn) {
  auto memory = Make();
  const CUdeviceptr below = memory->Allocate(3 * kMiB, On(0), 0).address;
  const CUdeviceptr room = memory->Allocate(41 * kMiB, On(0), 0).address;
  (void)memory->Allocate(400 * kMiB, On(0), 0);  // so that ten pages are no large block
  ASSERT_EQ(room, below + 3 * kMiB);
  ASSERT_EQ(memory->Free(room, On(0)), CUDA_SUCCESS);

  const CUdeviceptr at_end = memory->Allocate(20 * kMiB, On(0), 0).address;
  EXPECT_EQ(at_end, room + 21 * kMiB);
  const CUdeviceptr at_front = memory->Allocate(9 * kMiB, On(0), 0).address;
  EXPECT_EQ(at_front, room) << "of parts of pages: no page would be shut in";
  for (const CUdeviceptr block : {at_end, at_front}) ASSERT_EQ(memory->Free(block, On(0)), CUDA_SUCCESS);

  CUdeviceptr last = 0;
  for (std::uint64_t handed_out = 0; handed_out < 13 * memory->Counters().peak_live_bytes; handed_out += 20 * kMiB) {
    last = memory->Allocate(20 * kMiB, On(0), 0).address;
    ASSERT_EQ(memory->Free(last, On(0)), CUDA_SUCCESS);
  }
  EXPECT_EQ(last, room + kMiB) << "at the front, on a page";
}

// A large block's room, and later one that it fits into better, in a program that has run for a while or has not:
//   [15][  30 pages  ][1][ 22 ][1]
struct DeviceMemoryLargeBlocksTest : DeviceMemoryTest {
  void SetUp() override {
    DeviceMemoryTest::SetUp();
    memory_ = Make();
    before_ = New(15);
    room_ = New(30);
    (void)New(1);
    better_ = New(22);
    (void)New(1);
  }
  CUdeviceptr New(std::size_t pages) { return memory_->Allocate(pages * 2 * kMiB, On(0), 0).address; }
  void Free(CUdeviceptr block) { ASSERT_EQ(memory_->Free(block, On(0)), CUDA_SUCCESS); }
  void BeNoLongerYoung() {
    for (std::uint64_t handed_out = 0; handed_out < 13 * memory_->Counters().peak_live_bytes; handed_out += kMiB)
      Free(memory_->Allocate(kMiB, On(0), 0).address);
  }

  std::unique_ptr<DeviceMemory> memory_;
  CUdeviceptr before_ = 0;
  CUdeviceptr room_ = 0;
  CUdeviceptr better_ = 0;
};

TEST_F(DeviceMemoryLargeBlocksTest, OneLiesWhereTheLastOfItsSizeLay) {
  Free(room_);
  const CUdeviceptr large = New(20);
  EXPECT_EQ(large, room_);
  Free(large);
  BeNoLongerYoung();
  Free(better_);
  EXPECT_EQ(New(20), large) << "elsewhere it would be in the way of views of what it left before";
  EXPECT_EQ(New(20), better_) << "there is one now";
}

TEST_F(DeviceMemoryLargeBlocksTest, BestFitDecidesWhileTheProgramIsYoung) {
  Free(room_);
  Free(New(20));
  Free(better_);
  EXPECT_EQ(New(20), better_);
}

// Below it the plan in force has its slots.
TEST_F(DeviceMemoryLargeBlocksTest, BestFitDecidesBelowWhatThePlanLeaves) {
  Free(room_);
  const CUdeviceptr large = New(20);
  Free(large);
  BeNoLongerYoung();
  auto plan = PlanOf({512, 1024}, 1);
  plan->online_from = static_cast<Granule>((better_ - before_) / kGranuleBytes);
  ASSERT_TRUE(memory_->Install(plan, PlanFollower::When::kNow));
  Free(better_);
  EXPECT_EQ(New(20), better_);
}

// The last of its size was one of few, and is one of many now.
TEST_F(DeviceMemoryLargeBlocksTest, BestFitDecidesForBlocksThatAreNotLarge) {
  Free(room_);
  Free(New(20));
  ASSERT_EQ(New(30), room_);
  (void)New(20 * LargeRooms::kPart);
  Free(room_);
  BeNoLongerYoung();
  Free(better_);
  EXPECT_EQ(New(20), better_);
}

TEST_F(DeviceMemoryLargeBlocksTest, OneDoesNotSplitItsRoomToLieWhereTheLastLay) {
  Free(room_);
  Free(New(20));
  BeNoLongerYoung();
  Free(before_);
  Free(better_);
  EXPECT_EQ(New(20), better_) << "not in the middle of 45 pages";
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
