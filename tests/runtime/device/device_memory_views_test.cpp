// DeviceMemory's views over the model driver: blocks stitched from pages that lie apart, views kept, changed, unmapped.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "device_memory_fixture.h"

namespace stalloc::runtime {
namespace {

// Free pages  A.C.E  of a device that is full: a block of two pages fits nowhere, a view of two pages does.
TEST_F(DeviceMemoryTest, StitchesFreePagesInsteadOfGrowing) {
  auto memory = Make();
  const std::vector<CUdeviceptr> blocks = Pages(memory.get(), 6);
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

// Every second page, all others being in use for good. UseViewWithout(k) has the k-th of them in use too, if there are
// as many, and a block of sixteen pages live in the others.
struct DeviceMemoryTurnsTest : DeviceMemoryTest {
  static constexpr std::size_t kViewPages = 16;

  void MakePages(std::size_t count) {
    memory_ = Make();
    for (std::size_t i = 0; i < 2 * count; ++i) {
      const CUdeviceptr block = memory_->Allocate(2 * kMiB, On(0), 0).address;
      if (i % 2 == 0) pages_.push_back(block);
    }
  }
  // `taken`: of pages_, in use meanwhile.
  void UseViewWithout(const std::vector<std::size_t>& taken) {
    const auto is_taken = [&](std::size_t i) { return std::find(taken.begin(), taken.end(), i) != taken.end(); };
    for (std::size_t i = 0; i < pages_.size(); ++i) {
      if (is_taken(i)) continue;
      ASSERT_EQ(memory_->Free(pages_[i], On(0)), CUDA_SUCCESS);
    }
    const auto stitched = memory_->Allocate(kViewPages * 2 * kMiB, On(0), 0);
    ASSERT_EQ(stitched.result, CUDA_SUCCESS);
    device_.Touch(Stream(0), stitched.address, kViewPages * 2 * kMiB, stitched.number);
    ASSERT_EQ(memory_->Free(stitched.address, On(0)), CUDA_SUCCESS);
    (void)memory_->Trim(~std::uint64_t{0});  // marks how far the stream has been given work
    api_.cuStreamSynchronize(Stream(0));
    (void)memory_->Trim(~std::uint64_t{0});  // sees that it is done
    for (std::size_t i = 0; i < pages_.size(); ++i) {
      if (is_taken(i)) continue;
      const CUdeviceptr block = memory_->Allocate(2 * kMiB, On(0), 0).address;
      ASSERT_NE(std::find(pages_.begin(), pages_.end(), block), pages_.end()) << "there is no other room";
    }
  }

  std::unique_ptr<DeviceMemory> memory_;
  std::vector<CUdeviceptr> pages_;
};

// The first page of seventeen and the last take turns in being in use, and a view in having the other one. It is
// exchanged until that has cost what a second view does, and then there are two.
TEST_F(DeviceMemoryTurnsTest, PagesThatTakeTurnsInAViewGetTwo) {
  MakePages(kViewPages + 1);
  const std::vector<std::size_t> last{kViewPages};
  const std::vector<std::size_t> first{0};
  ASSERT_NO_FATAL_FAILURE(UseViewWithout(last));
  for (int turn = 0; turn < 2; ++turn) {
    ASSERT_NO_FATAL_FAILURE(UseViewWithout(first));
    EXPECT_EQ(memory_->Counters().views, 1U);
    ASSERT_NO_FATAL_FAILURE(UseViewWithout(last));
  }
  ASSERT_NO_FATAL_FAILURE(UseViewWithout(first));
  EXPECT_EQ(memory_->Counters().views, 2U);
  const auto mapped = memory_->Counters().map_calls;
  for (int turn = 0; turn < 3; ++turn) {
    ASSERT_NO_FATAL_FAILURE(UseViewWithout(last));
    ASSERT_NO_FATAL_FAILURE(UseViewWithout(first));
  }
  EXPECT_EQ(memory_->Counters().map_calls, mapped);
}

// Of the first page and the last two, two are in use, in turn: no page comes back at once.
TEST_F(DeviceMemoryTurnsTest, PagesThatGoRoundAreExchanged) {
  MakePages(kViewPages + 2);
  constexpr std::array<std::size_t, 3> kRound{0, kViewPages, kViewPages + 1};
  for (std::size_t turn = 0; turn < 12; ++turn)
    ASSERT_NO_FATAL_FAILURE(UseViewWithout({kRound[turn % 3], kRound[(turn + 1) % 3]}));
  EXPECT_EQ(memory_->Counters().views, 1U);
}

// A turn counts with those before it only where nothing else came in between.
TEST_F(DeviceMemoryTurnsTest, WhatTurnsCostIsForgottenWhereNoPageComesBack) {
  MakePages(kViewPages + 2);
  constexpr std::size_t kFirst = 0, kLast = kViewPages, kOther = kViewPages + 1;
  ASSERT_NO_FATAL_FAILURE(UseViewWithout({kLast, kOther}));
  for (int turn = 0; turn < 3; ++turn) {
    ASSERT_NO_FATAL_FAILURE(UseViewWithout({kFirst, kOther}));  // takes the last one: no turn
    ASSERT_NO_FATAL_FAILURE(UseViewWithout({kLast, kOther}));   // gives the first one back: a turn
    ASSERT_NO_FATAL_FAILURE(UseViewWithout({kFirst, kLast}));   // takes the other one: no turn
    ASSERT_NO_FATAL_FAILURE(UseViewWithout({kLast, kOther}));
  }
  EXPECT_EQ(memory_->Counters().views, 1U);
}

// Two pages at a time cost more than one.
TEST_F(DeviceMemoryTurnsTest, TwoPagesThatTakeTurnsGetTwoViewsSooner) {
  MakePages(kViewPages + 2);
  const std::vector<std::size_t> first{0, 1};
  const std::vector<std::size_t> last{kViewPages, kViewPages + 1};
  ASSERT_NO_FATAL_FAILURE(UseViewWithout(last));
  ASSERT_NO_FATAL_FAILURE(UseViewWithout(first));
  ASSERT_NO_FATAL_FAILURE(UseViewWithout(last));
  EXPECT_EQ(memory_->Counters().views, 1U);
  ASSERT_NO_FATAL_FAILURE(UseViewWithout(first));
  EXPECT_EQ(memory_->Counters().views, 2U);
}

// Three pages at a time of sixteen map more in eight turns than a view does: there are two at once.
TEST_F(DeviceMemoryTurnsTest, ManyPagesThatTakeTurnsGetTwoViewsAtOnce) {
  MakePages(kViewPages + 3);
  const std::vector<std::size_t> first{0, 1, 2};
  const std::vector<std::size_t> last{kViewPages, kViewPages + 1, kViewPages + 2};
  ASSERT_NO_FATAL_FAILURE(UseViewWithout(last));
  ASSERT_NO_FATAL_FAILURE(UseViewWithout(first));
  EXPECT_EQ(memory_->Counters().views, 1U);
  ASSERT_NO_FATAL_FAILURE(UseViewWithout(last));
  EXPECT_EQ(memory_->Counters().views, 2U);
}

//  page 0   1   2   3   4   5    6
//       [ ]  .  [ ]  .  [ ] [ ] [s|.]     three pages and a half: 1, 3, a new one, and what is free of 6
TEST_F(DeviceMemoryTest, StitchesPartsOfPagesInsteadOfHoldingOneMore) {
  auto memory = Make();
  const std::vector<CUdeviceptr> blocks = Pages(memory.get(), 6);
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

//  page 0      1     2      3     4      5
//  [b: view ] [live] [view] [live] [rest] [idle]     the view has a third page, which b does not need
TEST_F(DeviceMemoryTest, TrimGivesBackWhatIsBesideAPageBehindALiveView) {
  auto memory = Make();
  const std::vector<CUdeviceptr> blocks = Pages(memory.get(), 6);
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
  const std::vector<CUdeviceptr> blocks = Pages(memory.get(), 6);
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

}  // namespace
}  // namespace stalloc::runtime
