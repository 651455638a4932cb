// FreeSpace: which room a search answers with.
#include "runtime/pages/free_space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace stalloc::runtime {
namespace {

constexpr StreamIndex kStream = 1;

// Free: 40 granules at 100, 30 at 200, 400 at 300, each behind another fence.
class FreeSpaceTest : public ::testing::Test {
 protected:
  FreeSpaceTest() : space_(kPageGranules) {
    space_.Claim({0, kPageGranules});
    space_.Release({100, 140}, {kStream, 5});
    space_.Release({200, 230}, {kStream, 6});
    space_.Release({300, 700}, {kStream, 7});
  }

  std::optional<runtime::Run> LowestFit(Granule granules, StreamIndex stream, Granule from = 0,
                                        std::uint64_t position = FreeSpace::kAnyPosition) const {
    FreeSpace::Lowest low(put_off_);
    space_.AddTo(&low, granules, stream, from, position);
    return low.room();
  }

  FlatMap<bool> put_off_;
  FreeSpace space_;
};

TEST_F(FreeSpaceTest, WhatIsPutOffComesLastAndLowestFirst) {
  put_off_.Insert(100, true);
  EXPECT_EQ(LowestFit(20, kStream), (runtime::Run{200, 230}));
  put_off_.Insert(200, true);
  EXPECT_EQ(LowestFit(20, kStream), (runtime::Run{300, 700}));
  put_off_.Insert(300, true);
  EXPECT_EQ(LowestFit(20, kStream), (runtime::Run{100, 140}));
}

TEST_F(FreeSpaceTest, TheSmallestRoomOrTheLowest) {
  EXPECT_EQ(space_.BestFit(20, kStream), (runtime::Run{200, 230}));
  EXPECT_EQ(LowestFit(20, kStream), (runtime::Run{100, 140}));
  EXPECT_EQ(LowestFit(40, kStream), (runtime::Run{100, 140}));
  EXPECT_EQ(LowestFit(41, kStream), (runtime::Run{300, 700}));
  EXPECT_EQ(LowestFit(401, kStream), std::nullopt);
}

TEST_F(FreeSpaceTest, OnlyBehindWhereToBegin) {
  EXPECT_EQ(LowestFit(20, kStream, 110), (runtime::Run{110, 140}));
  EXPECT_EQ(LowestFit(20, kStream, 130), (runtime::Run{200, 230}));
  EXPECT_EQ(LowestFit(20, kStream, 690), std::nullopt);
}

TEST_F(FreeSpaceTest, OnlyOfThisStreamAndAsFarAsItHasCome) {
  EXPECT_EQ(LowestFit(20, kNoStream), std::nullopt);
  space_.Pass(kStream, 5);
  EXPECT_EQ(LowestFit(20, kNoStream), (runtime::Run{100, 140}));
  EXPECT_EQ(LowestFit(20, kStream), (runtime::Run{200, 230}));
  EXPECT_EQ(LowestFit(31, kStream, 0, 6), std::nullopt);
}

TEST_F(FreeSpaceTest, TheHighestRoomButForTheLargest) {
  const auto high = [&](Granule granules) {
    FreeSpace::HighestButLargest rooms;
    space_.AddTo(&rooms, granules, kStream);
    return rooms.room();
  };
  EXPECT_EQ(high(20), (runtime::Run{200, 230}));
  EXPECT_EQ(high(31), (runtime::Run{100, 140}));
  EXPECT_EQ(high(40), (runtime::Run{100, 140}));
  EXPECT_EQ(high(41), (runtime::Run{300, 700}));
  EXPECT_EQ(high(401), std::nullopt);
}

TEST(HighestButLargestTest, WhateverTheOrderInWhichTheyCome) {
  std::vector<runtime::Run> rooms{{0, 10}, {20, 60}, {70, 75}, {80, 120}, {130, 138}};
  std::sort(rooms.begin(), rooms.end(), [](auto a, auto b) { return a.begin < b.begin; });
  do {
    FreeSpace::HighestButLargest high;
    for (const runtime::Run room : rooms) high.Add(room);
    EXPECT_EQ(high.room(), (runtime::Run{130, 138}));
  } while (std::next_permutation(rooms.begin(), rooms.end(), [](auto a, auto b) { return a.begin < b.begin; }));

  // Of two that are equally large the lower one is the largest.
  const auto of_two = [](runtime::Run first, runtime::Run second) {
    FreeSpace::HighestButLargest high;
    high.Add(first);
    high.Add(second);
    return high.room();
  };
  EXPECT_EQ(of_two({80, 120}, {20, 60}), (runtime::Run{80, 120}));
  EXPECT_EQ(of_two({20, 60}, {80, 120}), (runtime::Run{80, 120}));
  EXPECT_EQ(of_two({0, 10}, {80, 120}), (runtime::Run{0, 10}));
}

}  // namespace
}  // namespace stalloc::runtime
