// LifetimeRooms: where blocks are sorted by whether they last, and where that ends again.
#include "runtime/device/lifetime_rooms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "host_memory.h"

namespace stalloc::runtime {
namespace {

constexpr std::uint64_t kBytes = std::uint64_t{256} << 20;

// How a program goes on.
struct Way {
  bool erratic = false;   // which of the blocks is kept is random
  unsigned larger = 2;    // the larger one, in blocks
  bool stitches = true;   // false: nothing is, and so nothing spent
  bool one_room = false;  // for the larger one: what is spent goes elsewhere
};

// A program that keeps one of four blocks until a larger one is there, for which there is no one room; 20 ms an
// iteration, three of which are a window.
class LifetimeRoomsTest : public ::testing::Test {
 protected:
  static constexpr int kWindow = 3;

  // The first call begins the first window.
  LifetimeRoomsTest() { rooms_.Spent(0, moment_); }

  // So many iterations, in which mapping takes `share` of the time.
  void Go(int iterations, double share, Way way = {}) {
    for (int i = 0; i < iterations; ++i) {
      const unsigned kept = way.erratic ? random_() % 4 : 1;
      std::uint64_t stays = 0;
      for (unsigned k = 0; k < 4; ++k) {
        const std::uint64_t block = Begin(block_);
        if (k == kept) {
          stays = block;
          room_of_kept_ = last_.room;
        } else {
          End(block, block_);
        }
      }
      End(Begin(way.larger * block_, way.stitches && !way.one_room), way.larger * block_);
      End(stays, block_);
      Spend(way.stitches ? std::optional(share) : std::nullopt);
    }
  }

  // 20 ms, and as many bytes as an iteration hands out. nullopt: nothing was stitched in them.
  void Spend(std::optional<double> share) {
    moment_.now_ns += 20'000'000;
    moment_.allocated_bytes += 8 * block_;
    if (share) rooms_.Spent(static_cast<std::uint64_t>(*share * 20e6), moment_);
  }

  std::uint64_t Begin(std::uint64_t bytes, bool in_view) {
    const std::uint64_t key = ++keys_;
    used_ += GranulesOf(bytes);
    if (!rooms_.watching()) return key;
    last_ = rooms_.Ask(GranulesOf(bytes), used_);
    last_end_ = in_view ? 0 : static_cast<Granule>(key) * kPageGranules;
    rooms_.Note(key, last_, GranulesOf(bytes), last_end_, used_);
    return key;
  }
  std::uint64_t Begin(std::uint64_t bytes) { return Begin(bytes, false); }
  void End(std::uint64_t key, std::uint64_t bytes = kBytes) {
    used_ -= GranulesOf(bytes);
    if (rooms_.watching()) rooms_.End(key, GranulesOf(bytes));
  }

  // Goes on until then, for so many iterations at most.
  template <typename Then>
  bool Until(int iterations, double share, Way way, Then then) {
    for (int i = 0; i < iterations; ++i) {
      Go(1, share, way);
      if (then()) return true;
    }
    return false;
  }
  bool EverSorts(int iterations, double share, Way way = {}) {
    return Until(iterations, share, way, [&] { return rooms_.sorting(); });
  }
  bool EverStops(int iterations, double share, Way way = {}) {
    return Until(iterations, share, way, [&] { return !rooms_.sorting(); });
  }

  std::uint64_t block_ = kBytes;
  LifetimeRooms rooms_;
  LifetimeRooms::Guess last_;
  Granule last_end_ = 0;
  LifetimeRooms::Room room_of_kept_ = LifetimeRooms::Room::kAny;
  CostWindow::Moment moment_{.peak_live_bytes = 4 * kBytes};
  std::uint64_t keys_ = 0;
  Granule used_ = 0;
  std::minstd_rand random_{3};
};

TEST_F(LifetimeRoomsTest, WhereMappingTakesNoTimeNobodyWatches) {
  Go(200, 0.5 * LifetimeRooms::kWorth);
  EXPECT_FALSE(rooms_.watching());
}

TEST_F(LifetimeRoomsTest, WhereItTakesTimeBlocksAreSortedWhenTheyAreKnown) {
  EXPECT_TRUE(EverSorts(40, 0.02));
  Go(1, 0.005);
  EXPECT_EQ(room_of_kept_, LifetimeRooms::Room::kLowest);
  EXPECT_EQ(last_.room, LifetimeRooms::Room::kHigh);
}

TEST_F(LifetimeRoomsTest, WhereTheOthersEndIsKnownWhileTheyLive) {
  ASSERT_TRUE(EverSorts(40, 0.02));
  EXPECT_EQ(rooms_.high_ends().size(), 0u);
  Go(1, 0.005);
  EXPECT_EQ(rooms_.high_ends().size(), 0u) << "all have ended";
  unsigned high = 0;
  for (int i = 0; i < 8; ++i) {
    const std::uint64_t block = Begin(block_);
    high += last_.room == LifetimeRooms::Room::kHigh ? 1 : 0;
    EXPECT_EQ(rooms_.high_ends().Find(last_end_) != nullptr, last_.room == LifetimeRooms::Room::kHigh);
    End(block, block_);
    EXPECT_EQ(rooms_.high_ends().size(), 0u);
  }
  EXPECT_GT(high, 0u);
  for (int i = 0; i < 8; ++i) {
    const std::uint64_t block = Begin(block_, true);
    EXPECT_EQ(rooms_.high_ends().size(), 0u) << "in a view it has no end";
    End(block, block_);
  }
}

TEST_F(LifetimeRoomsTest, HoweverLargeTheyAre) {
  block_ = 65 * kBytes;  // 65 GiB at the peak
  moment_.peak_live_bytes = 4 * block_;
  rooms_.Spent(0, moment_);
  EXPECT_TRUE(EverSorts(40, 0.02));
}

TEST_F(LifetimeRoomsTest, SmallBlocksAreNot) {
  ASSERT_TRUE(EverSorts(40, 0.02));
  Begin(kPageBytes / 4);
  EXPECT_EQ(last_.room, LifetimeRooms::Room::kAny);
}

TEST_F(LifetimeRoomsTest, WhatCannotBeToldIsNotSortedNorWatchedForEver) {
  ASSERT_TRUE(Until(40, 0.02, {.erratic = true}, [&] { return rooms_.watching(); }));
  EXPECT_TRUE(Until(400, 0.02, {.erratic = true}, [&] { return !rooms_.watching(); }));
  EXPECT_FALSE(EverSorts(400, 0.02, {.erratic = true}));
}

TEST_F(LifetimeRoomsTest, WhatDiesOutNowAndThenIsNotSorted) {
  for (int i = 0; i < 40; ++i) {
    EXPECT_FALSE(EverSorts(2 * kWindow, 0.02));
    EXPECT_FALSE(EverSorts(kWindow, 0.0));
  }
}

TEST_F(LifetimeRoomsTest, APeakThatStillRisesIsNotJudged) {
  for (int i = 0; i < 40; ++i) {
    EXPECT_FALSE(EverSorts(2 * kWindow, 0.02));
    moment_.peak_live_bytes += moment_.peak_live_bytes / 32;
    rooms_.Spent(0, moment_);
  }
}

TEST_F(LifetimeRoomsTest, WhatIsHeldMoreIsNotComparedWithBefore) {
  for (int i = 0; i < 40; ++i) {
    EXPECT_FALSE(EverSorts(2 * kWindow, 0.02));
    rooms_.NoteGrowth();
  }
}

TEST_F(LifetimeRoomsTest, ALargeBlockThatNeverComesAgainIsForgotten) {
  ASSERT_TRUE(Until(40, 0.02, {}, [&] { return rooms_.watching(); }));
  Go(1, 0.02, {.larger = 16});
  ASSERT_TRUE(EverSorts(80, 0.02));
  Go(1, 0.02);
  EXPECT_EQ(room_of_kept_, LifetimeRooms::Room::kLowest);
}

TEST_F(LifetimeRoomsTest, ItDoesNotChangeWhatIsSortedEither) {
  ASSERT_TRUE(EverSorts(40, 0.02));
  Go(1, 0.005, {.larger = 16});
  Go(40, 0.005, {.one_room = true});
  EXPECT_EQ(room_of_kept_, LifetimeRooms::Room::kLowest);
}

// The larger block comes twice, the first time when there is room for it: what ends before the second does not last.
TEST_F(LifetimeRoomsTest, MemoryIsTightWhereAsMuchIsInUse) {
  LifetimeRooms::Room of_early{};
  LifetimeRooms::Room of_late{};
  const auto iterate = [&] {
    const std::uint64_t early = Begin(kBytes);
    of_early = last_.room;
    End(Begin(2 * kBytes), 2 * kBytes);
    End(early);
    const std::uint64_t late = Begin(kBytes);
    const std::uint64_t more = Begin(kBytes / 2);
    of_late = last_.room;
    End(Begin(2 * kBytes, true), 2 * kBytes);
    End(more, kBytes / 2);
    End(late);
    Spend(rooms_.sorting() ? 0.001 : 0.02);
  };
  for (int i = 0; i < 60; ++i) iterate();
  ASSERT_TRUE(rooms_.sorting());
  EXPECT_EQ(of_early, LifetimeRooms::Room::kHigh);
  EXPECT_EQ(of_late, LifetimeRooms::Room::kLowest);
}

// Twelve of a size, of which the last is kept. Only that two were freed at once before it tells it from the others.
TEST_F(LifetimeRoomsTest, WhatEndedBeforeTellsBlocksApart) {
  bool sorted = false;
  for (int i = 0; i < 60 && !sorted; ++i) {
    for (int k = 0; k < 9; ++k) End(Begin(kBytes));
    const std::uint64_t first = Begin(kBytes);
    const std::uint64_t second = Begin(kBytes);
    End(first);
    End(second);
    const std::uint64_t stays = Begin(kBytes);
    End(Begin(2 * kBytes, true), 2 * kBytes);
    End(stays);
    Spend(0.02);
    sorted = rooms_.sorting();
  }
  EXPECT_TRUE(sorted);
}

// Between two of the larger blocks are three windows in which only blocks are stitched whose coming means nothing: what
// ends before the next larger one does not last.
TEST_F(LifetimeRoomsTest, MemoryNeedNotBeTightInEveryWindow) {
  int wrong = 0;
  int stopped = 0;
  for (int i = 0; i < 40; ++i) {
    const bool sorting = rooms_.sorting();
    const std::uint64_t stays = Begin(kBytes);
    wrong += rooms_.sorting() && last_.room != LifetimeRooms::Room::kLowest ? 1 : 0;
    for (int k = 0; k < 4 * kWindow; ++k) {
      const std::uint64_t first = Begin(kBytes);
      wrong += rooms_.sorting() && last_.room != LifetimeRooms::Room::kHigh ? 1 : 0;
      const std::uint64_t second = Begin(kBytes / 2, true);
      End(first);
      End(second, kBytes / 2);
      if (k + 1 == 4 * kWindow) End(Begin(2 * kBytes, true), 2 * kBytes);
      Spend(rooms_.sorting() ? 0.001 : 0.02);
    }
    End(stays);
    stopped += sorting && !rooms_.sorting() ? 1 : 0;
  }
  EXPECT_TRUE(rooms_.sorting());
  EXPECT_EQ(stopped, 0);
  EXPECT_EQ(wrong, 0);
}

TEST_F(LifetimeRoomsTest, AWaitIsNoStitching) {
  ASSERT_TRUE(Until(40, 0.02, {}, [&] { return rooms_.watching(); }));
  for (int i = 0; i < 100; ++i) {
    Go(1, 0.0, {.stitches = false});
    rooms_.Spent(0, moment_);
  }
  EXPECT_FALSE(rooms_.watching());
}

TEST_F(LifetimeRoomsTest, HoweverManyBlocksThereAreNoMemoryIsTakenForThem) {
  ASSERT_TRUE(Until(40, 0.02, {}, [&] { return rooms_.watching(); }));
  std::vector<std::uint64_t> blocks;
  blocks.reserve(20'000);
  {
    const HostMemory none(0);
    for (int i = 0; i < 20'000; ++i) blocks.push_back(Begin(kPageBytes));
    for (const std::uint64_t block : blocks) End(block, kPageBytes);
  }
  EXPECT_TRUE(EverSorts(80, 0.02));
}

TEST_F(LifetimeRoomsTest, WhereNothingIsStitchedAnyMoreNobodyWatches) {
  ASSERT_TRUE(Until(40, 0.02, {}, [&] { return rooms_.watching(); }));
  Go(100, 0.0, {.stitches = false});
  EXPECT_FALSE(rooms_.watching());
}

TEST_F(LifetimeRoomsTest, SortedSoWellThatNothingIsStitchedTheyStaySorted) {
  ASSERT_TRUE(EverSorts(40, 0.02));
  Go(400, 0.0, {.stitches = false});
  EXPECT_TRUE(rooms_.sorting());
}

TEST_F(LifetimeRoomsTest, GoesOnWhileItHelps) {
  ASSERT_TRUE(EverSorts(40, 0.02));
  Go(200, 0.005);
  EXPECT_TRUE(rooms_.sorting());
}

TEST_F(LifetimeRoomsTest, ATrialThatHelpsALittleEnds) {
  ASSERT_TRUE(EverSorts(40, 0.02));
  EXPECT_TRUE(EverStops(40, 0.018));
}

TEST_F(LifetimeRoomsTest, WhatHasHelpedMayHelpLess) {
  ASSERT_TRUE(EverSorts(40, 0.02));
  Go(40, 0.005);
  Go(100, 0.018);
  EXPECT_TRUE(rooms_.sorting());
  EXPECT_TRUE(EverStops(40, 0.03));
}

TEST_F(LifetimeRoomsTest, EndsWhereMoreIsHeld) {
  ASSERT_TRUE(EverSorts(40, 0.02));
  Go(40, 0.005);
  rooms_.NoteGrowth();
  EXPECT_FALSE(rooms_.sorting());
}

TEST_F(LifetimeRoomsTest, EndsWhereMemoryIsNeverTightAnyMore) {
  ASSERT_TRUE(EverSorts(40, 0.02));
  Go(40, 0.005);
  block_ /= 4;
  EXPECT_TRUE(EverStops(40, 0.005));
}

TEST_F(LifetimeRoomsTest, EndsWhereTheProgramCannotBeToldAnyMore) {
  ASSERT_TRUE(EverSorts(40, 0.02));
  Go(40, 0.001);
  ASSERT_TRUE(rooms_.sorting());
  EXPECT_TRUE(EverStops(100, 0.001, {.erratic = true}));
}

TEST_F(LifetimeRoomsTest, OneWindowThatCannotBeToldIsNone) {
  ASSERT_TRUE(EverSorts(40, 0.02));
  Go(13 * kWindow, 0.001);
  for (int i = 0; i < 10; ++i) {
    Go(1, 0.001, {.erratic = true});
    Go(4 * kWindow - 1, 0.001);
  }
  EXPECT_TRUE(rooms_.sorting());
}

// So many windows pass before a program is watched again.
TEST_F(LifetimeRoomsTest, WhatDidNotHelpIsTriedAgainAfterTwiceAsLong) {
  std::vector<int> pauses;
  for (int trial = 0; trial < 3; ++trial) {
    ASSERT_TRUE(EverSorts(1000, 0.02));
    ASSERT_TRUE(EverStops(40, 0.02));
    int windows = 0;
    for (; !rooms_.watching() && windows < 1000; ++windows) Go(kWindow, 0.02);
    pauses.push_back(windows);
  }
  EXPECT_GE(pauses[0], 16);
  EXPECT_GE(pauses[1], 2 * pauses[0] - 4);
  EXPECT_GE(pauses[2], 2 * pauses[1] - 4);
}

TEST_F(LifetimeRoomsTest, WhatHelpedIsTriedAgainSoon) {
  const auto pause = [&] {
    int windows = 0;
    for (; !rooms_.watching() && windows < 1000; ++windows) Go(kWindow, 0.02);
    return windows;
  };
  for (int trial = 0; trial < 3; ++trial) {
    ASSERT_TRUE(EverSorts(1000, 0.02));
    Go(40, 0.005);
    ASSERT_TRUE(EverStops(40, 0.03));
    EXPECT_LT(pause(), 20);
  }
}

TEST_F(LifetimeRoomsTest, ItIsJudgedWhenBlocksHaveTurnedRound) {
  ASSERT_TRUE(EverSorts(40, 0.02));
  Go(2 * kWindow, 0.04);
  Go(40, 0.012);
  EXPECT_TRUE(rooms_.sorting());
}

TEST_F(LifetimeRoomsTest, WhereSortedBlocksStillCostALittleMoreIsAskedForOnce) {
  ASSERT_TRUE(EverSorts(40, 0.02));
  EXPECT_FALSE(rooms_.TakeWish()) << "whether it helps is not known yet";
  Go(6 * kWindow, 0.008);
  EXPECT_TRUE(rooms_.TakeWish());
  EXPECT_FALSE(rooms_.TakeWish());
  EXPECT_EQ(rooms_.growth(), 1.0) << "there may be none";
  rooms_.HoldMore();
  EXPECT_EQ(rooms_.growth(), LifetimeRooms::kMoreGrowth);
  Go(40, 0.008);
  EXPECT_FALSE(rooms_.TakeWish());
  rooms_.MemoryIsShort();
  EXPECT_EQ(rooms_.growth(), 1.0);
}

TEST_F(LifetimeRoomsTest, WhereTheyDoNotNoMoreIs) {
  ASSERT_TRUE(EverSorts(40, 0.02));
  Go(40, 0.5 * LifetimeRooms::kWorth);
  ASSERT_TRUE(rooms_.sorting());
  EXPECT_FALSE(rooms_.TakeWish());
}

TEST_F(LifetimeRoomsTest, WhatWasGivenEndsWithSorting) {
  ASSERT_TRUE(EverSorts(40, 0.02));
  Go(40, 0.008);
  rooms_.HoldMore();
  ASSERT_EQ(rooms_.growth(), LifetimeRooms::kMoreGrowth);
  ASSERT_TRUE(EverStops(100, 0.03));
  EXPECT_EQ(rooms_.growth(), 1.0);
  rooms_.HoldMore();
  EXPECT_EQ(rooms_.growth(), 1.0);
}

TEST_F(LifetimeRoomsTest, BlocksAreTurnedRoundUntilItHasHelped) {
  ASSERT_TRUE(EverSorts(40, 0.02));
  EXPECT_TRUE(rooms_.unsettled());
  Go(6 * kWindow, 0.005);
  ASSERT_TRUE(rooms_.sorting());
  EXPECT_FALSE(rooms_.unsettled());
}

TEST_F(LifetimeRoomsTest, WhatMappingCostsSaysNothingWhileSortingMayBegin) {
  EXPECT_FALSE(rooms_.unsettled());
  ASSERT_TRUE(Until(40, 0.02, {}, [&] { return rooms_.watching(); }));
  for (int i = 0; i < 40 && !rooms_.sorting(); ++i, Go(1, 0.02)) EXPECT_TRUE(rooms_.unsettled()) << i;
  EXPECT_TRUE(rooms_.sorting());
}

TEST_F(LifetimeRoomsTest, ItDoesWhereBlocksAreNotTold) {
  ASSERT_TRUE(Until(40, 0.02, {.erratic = true}, [&] { return rooms_.watching(); }));
  Go(4 * kWindow, 0.02, {.erratic = true});
  ASSERT_TRUE(rooms_.watching());
  EXPECT_FALSE(rooms_.unsettled());
}

TEST_F(LifetimeRoomsTest, AndBackForAWhile) {
  ASSERT_TRUE(EverSorts(40, 0.02));
  ASSERT_TRUE(EverStops(40, 0.02));
  EXPECT_TRUE(rooms_.unsettled());
  Go(3 * kWindow, 0.02);
  EXPECT_FALSE(rooms_.unsettled());
}

}  // namespace
}  // namespace stalloc::runtime
