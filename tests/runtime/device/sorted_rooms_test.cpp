// Where blocks lie in the memory of a program while LifetimeRooms sorts them, what ends that, and that what it costs to
// begin is not held against the least memory.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "device_memory_fixture.h"
#include "runtime/learning/learner.h"

namespace stalloc::runtime {
namespace {

//  MiB  0        6       8     12      14       20      22          30
//       [ room ] [taken] [room] [taken] [ room ] [taken] [  room   ] [taken]
//
// An iteration of 10 ms: a block that lasts until a large one is there, one that does not, and the large one, for which
// there is no one room. Its view is unmapped behind it, so that it is stitched anew in each.
class SortedRoomsTest : public DeviceMemoryTest {
 protected:
  struct Places {  // in MiB
    double lasting = 0.0;
    double passing = 0.0;
    bool operator==(const Places&) const = default;
  };
  static constexpr int kMostIterations = 100;
  static constexpr Places kBestFit{8.0, 0.0};
  static constexpr Places kSorted{0.0, 17.0};
  // So many iterations, a quarter of a second, the time budget looks at together.
  static constexpr int kBudgetWindow = 26;

  void SetUp() override {
    DeviceMemoryTest::SetUp();
    memory_ = Make({.growth = std::nullopt, .view_pages = 0, .clock_ns = [this] { return now_ns_ += cost_ns_; }});
    std::vector<CUdeviceptr> rooms;
    for (const std::size_t room_mib : {6, 4, 6, 8}) {
      rooms.push_back(Begin(room_mib * scale_));
      Begin(2 * scale_);
    }
    base_ = rooms.front();
    for (const CUdeviceptr room : rooms) End(room);
  }

  // Stitching takes `share` of its time.
  Places Iterate(double share) {
    const CUdeviceptr lasting = Begin(4 * scale_);
    const CUdeviceptr passing = Begin(3 * scale_);
    End(passing);
    EndIteration({lasting}, share);
    return {Mib(lasting), Mib(passing)};
  }
  // The large block comes, then what lasted ends.
  void EndIteration(const std::vector<CUdeviceptr>& lasting, double share) {
    constexpr std::uint64_t kIterationNs = 10'000'000;
    cost_ns_ = static_cast<std::uint64_t>(share * kIterationNs);
    const std::uint64_t begun_ns = now_ns_;
    End(Begin(12 * scale_));
    for (const CUdeviceptr block : lasting) End(block);
    now_ns_ = begun_ns + kIterationNs;
    UnmapViews();
  }
  // Until blocks lie so, but not for ever.
  bool Until(Places wanted, double share) {
    for (int i = 0; i < kMostIterations; ++i)
      if (Iterate(share) == wanted) return true;
    return false;
  }

  // Of the 32 MiB that are live at the peak.
  std::uint64_t MayBeHeldMore() const { return memory_->Counters().growth_bytes; }
  bool MoreMayBeHeld() const { return MayBeHeldMore() > kLittleMore; }
  static constexpr auto kLittleMore = static_cast<std::uint64_t>((LifetimeRooms::kMoreGrowth - 1.0) * 32 * kMiB);

  // Until a little more may be held, but not for ever; blocks stay sorted.
  bool UntilALittleMoreMayBeHeld() {
    for (int i = 0; i < kMostIterations && MayBeHeldMore() == 0; ++i) EXPECT_EQ(Iterate(0.008), kSorted);
    return MayBeHeldMore() != 0;
  }

  std::unique_ptr<DeviceMemory> memory_;
  std::size_t scale_ = 1;  // of all sizes

  CUdeviceptr Begin(std::size_t mib) {
    const auto made = memory_->Allocate(mib * kMiB, On(0), 0);
    EXPECT_EQ(made.result, CUDA_SUCCESS);
    return made.address;
  }
  void End(CUdeviceptr block) { EXPECT_EQ(memory_->Free(block, On(0)), CUDA_SUCCESS); }
  double Mib(CUdeviceptr block) const {
    return static_cast<double>(block - base_) / static_cast<double>(scale_ * kMiB);
  }

 private:
  void UnmapViews() {
    (void)memory_->Trim(~std::uint64_t{0});  // marks how far the stream has been given work
    device_.ExecuteAll();
    (void)memory_->Trim(~std::uint64_t{0});  // sees that it is done
    memory_->TidyViews();
    ASSERT_EQ(memory_->Counters().views, 0U);
  }

  CUdeviceptr base_ = 0;
  std::uint64_t now_ns_ = 0;
  std::uint64_t cost_ns_ = 0;  // that passes each time that somebody asks the clock
};

TEST_F(SortedRoomsTest, WhatLastsLiesLowestTheRestAtTheEndOfTheHighestRoomButTheLargest) {
  ASSERT_EQ(Iterate(0.02), kBestFit);
  for (int i = 0; i < kMostIterations; ++i) {
    const Places places = Iterate(0.02);
    if (places == kBestFit) {
      EXPECT_EQ(memory_->Counters().sorted_requests, 0u);
      continue;
    }
    EXPECT_GE(memory_->Counters().sorted_requests, 2u);
    EXPECT_EQ(places.lasting, kSorted.lasting);
    EXPECT_EQ(places.passing, kSorted.passing);
    return;
  }
  FAIL() << "nothing was sorted";
}

// The rooms up to 14 MiB are left to the plan, and in those behind there is one alone for a block that does not last.
TEST_F(SortedRoomsTest, NeitherLiesInWhatIsLeftToThePlan) {
  ASSERT_TRUE(Until(kSorted, 0.02));
  auto plan = PlanOf({512}, 1);
  plan->online_from = 7 * kPageGranules;
  ASSERT_TRUE(memory_->Install(std::move(plan), PlanFollower::When::kNow));
  const Places places = Iterate(0.02);
  EXPECT_EQ(places.lasting, 14.0);
  EXPECT_EQ(places.passing, 27.0);
}

// Of two blocks that do not last, at 14 and 17 MiB, the upper one ends first. The third that lasts begins at 22 MiB,
// and not behind the other.
TEST_F(SortedRoomsTest, NorDoesABlockThatLastsBeginBehindOneThatDoesNot) {
  for (int i = 0; i < kMostIterations; ++i) {
    std::vector<CUdeviceptr> lasting{Begin(4), Begin(4)};
    const CUdeviceptr upper = Begin(3);
    const CUdeviceptr lower = Begin(3);
    End(upper);
    lasting.push_back(Begin(3));
    const bool sorted = Mib(lower) == 14.0 && Mib(upper) == 17.0 && Mib(lasting[0]) == 0.0 && Mib(lasting[1]) == 8.0;
    if (sorted) {
      EXPECT_EQ(Mib(lasting[2]), 22.0);
      return;
    }
    End(lower);
    EndIteration(lasting, 0.02);
  }
  FAIL() << "nothing was sorted";
}

// Its iterations are alike enough for a plan, but it is not asked for one.
TEST_F(SortedRoomsTest, NoPlanIsMadeMeanwhile) {
  ASSERT_TRUE(Until(kSorted, 0.02));
  Learner learner(*memory_, {});
  for (int i = 0; i < kMostIterations; ++i) {
    ASSERT_EQ(Iterate(0.004), kSorted);
    EXPECT_FALSE(learner.Step());
  }
  EXPECT_EQ(memory_->Counters().plans_installed, 0u);
  EXPECT_EQ(learner.status().state, PlanStatus::State::kLeftAlone);
}

// Sorting lowers the cost, but not to what the least memory may cost.
TEST_F(SortedRoomsTest, BlocksAreNotSortedAnyMoreWhenMoreMayBeHeld) {
  ASSERT_TRUE(Until(kSorted, 2.5 * TimeBudget::kShare));
  for (int i = 0; i < 8 * kBudgetWindow && !MoreMayBeHeld(); ++i) ASSERT_EQ(Iterate(1.5 * TimeBudget::kShare), kSorted);
  ASSERT_TRUE(MoreMayBeHeld());
  EXPECT_EQ(Iterate(1.5 * TimeBudget::kShare), kBestFit);
}

// It is guessed that a block of 7 MiB will last, but there is no room for it, and sorting ends before it is looked for
// again. Then it lies where any other would: in the room of 8.
TEST_F(SortedRoomsTest, AGuessThatIsOlderThanTheEndOfSortingIsNotGoneBy) {
  static std::function<void()> while_looking;
  static DriverApi driver;
  driver = api_;
  ASSERT_TRUE(Until(kSorted, 0.02));
  const CUdeviceptr in_the_way = Begin(8);
  bool ended = false;
  while_looking = [&] {
    End(in_the_way);
    ended = Until(kBestFit, 0.02);
  };
  api_.cuStreamQuery = [](CUstream stream) {
    if (while_looking) std::exchange(while_looking, nullptr)();
    return driver.cuStreamQuery(stream);
  };
  End(Begin(1));  // so that somebody looks whether its stream has come to that
  const CUdeviceptr block = Begin(7);
  EXPECT_TRUE(ended);
  EXPECT_EQ(Mib(block), 22.0);
}

// Sorting lowers the cost, but not to where nothing better is worth it.
TEST_F(SortedRoomsTest, ALittleMoreMayBeHeldWhereSortedBlocksStillCost) {
  ASSERT_TRUE(Until(kSorted, 0.02));
  ASSERT_TRUE(UntilALittleMoreMayBeHeld());
  EXPECT_NEAR(static_cast<double>(MayBeHeldMore()), static_cast<double>(kLittleMore), 1.0);
  EXPECT_EQ(Iterate(0.008), kSorted);
}

TEST_F(SortedRoomsTest, NotWhereMemoryIsShort) {
  ASSERT_TRUE(Until(kSorted, 0.02));
  device_.total_bytes = device_.used_bytes + device_.used_bytes / 16;
  for (int i = 0; i < kMostIterations; ++i) ASSERT_EQ(Iterate(0.008), kSorted);
  EXPECT_EQ(MayBeHeldMore(), 0u);
}

TEST_F(SortedRoomsTest, UntilSomebodyIsRefusedMemory) {
  ASSERT_TRUE(Until(kSorted, 0.02));
  ASSERT_TRUE(UntilALittleMoreMayBeHeld());
  EXPECT_EQ(memory_->Allocate(6 * 1024 * kMiB, On(0), 0).result, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(MayBeHeldMore(), 0u);
}

// The same with a gibibyte at the peak, so that half a per cent of it is two pages. All that is free is taken but for
// two pages that lie apart: where more may be held two new ones are, otherwise a view of these two is mapped.
class SortedRoomsOfAGibibyte : public SortedRoomsTest {
 protected:
  SortedRoomsOfAGibibyte() { scale_ = 32; }

  // How much more is held for a request of two pages that finds no room.
  std::uint64_t HeldMoreForTwoPages() {
    std::vector<CUdeviceptr> blocks;
    for (std::size_t mib = 0; mib < 24 * scale_; mib += 2) blocks.push_back(Begin(2));
    End(blocks[0]);
    End(blocks[2]);
    const std::uint64_t before = memory_->Counters().reserved_bytes;
    Begin(4);
    return memory_->Counters().reserved_bytes - before;
  }
};

TEST_F(SortedRoomsOfAGibibyte, IsHeldMoreWhereItMayBe) {
  ASSERT_TRUE(Until(kSorted, 0.02));
  ASSERT_TRUE(UntilALittleMoreMayBeHeld());
  EXPECT_EQ(HeldMoreForTwoPages(), 2 * kPageBytes);
}

TEST_F(SortedRoomsOfAGibibyte, IsNotHeldMoreWhereItMayNot) {
  ASSERT_TRUE(Until(kSorted, 0.02));
  EXPECT_EQ(HeldMoreForTwoPages(), 0u);
}

// Sorting is tried and does not help. What was spent until then and a window more would be enough for more to be held;
// what is spent from then on is so four windows later.
TEST_F(SortedRoomsTest, NoMoreIsHeldForWhatIsSpentWhileBlocksAreTurnedRound) {
  ASSERT_TRUE(Until(kSorted, 2 * TimeBudget::kShare));
  ASSERT_TRUE(Until(kBestFit, 2 * TimeBudget::kShare));
  for (int i = 0; i < kBudgetWindow; ++i) Iterate(2 * TimeBudget::kShare);
  EXPECT_FALSE(MoreMayBeHeld());
  for (int i = 0; i < 4 * kBudgetWindow; ++i) Iterate(2 * TimeBudget::kShare);
  EXPECT_TRUE(MoreMayBeHeld());
}

}  // namespace
}  // namespace stalloc::runtime
