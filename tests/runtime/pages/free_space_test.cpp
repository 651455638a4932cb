// FreeSpace: which room a search answers with.
#include "runtime/pages/free_space.h"

#include <gtest/gtest.h>

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

  FreeSpace space_;
};

TEST_F(FreeSpaceTest, TheSmallestRoomOrTheLowest) {
  EXPECT_EQ(space_.BestFit(20, kStream), (runtime::Run{200, 230}));
  EXPECT_EQ(space_.LowestFit(20, kStream), (runtime::Run{100, 140}));
  EXPECT_EQ(space_.LowestFit(40, kStream), (runtime::Run{100, 140}));
  EXPECT_EQ(space_.LowestFit(41, kStream), (runtime::Run{300, 700}));
  EXPECT_EQ(space_.LowestFit(401, kStream), std::nullopt);
}

TEST_F(FreeSpaceTest, OnlyBehindWhereToBegin) {
  EXPECT_EQ(space_.LowestFit(20, kStream, 110), (runtime::Run{110, 140}));
  EXPECT_EQ(space_.LowestFit(20, kStream, 130), (runtime::Run{200, 230}));
  EXPECT_EQ(space_.LowestFit(20, kStream, 690), std::nullopt);
}

TEST_F(FreeSpaceTest, OnlyOfThisStreamAndAsFarAsItHasCome) {
  EXPECT_EQ(space_.LowestFit(20, kNoStream), std::nullopt);
  space_.Pass(kStream, 5);
  EXPECT_EQ(space_.LowestFit(20, kNoStream), (runtime::Run{100, 140}));
  EXPECT_EQ(space_.LowestFit(20, kStream), (runtime::Run{200, 230}));
  EXPECT_EQ(space_.LowestFit(31, kStream, 0, 6), std::nullopt);
}

TEST_F(FreeSpaceTest, FindsByTheFitThatIsAskedFor) {
  EXPECT_EQ(space_.Find(20, kStream, FreeSpace::Fit::kBest), space_.BestFit(20, kStream));
  EXPECT_EQ(space_.Find(20, kStream, FreeSpace::Fit::kLowest), space_.LowestFit(20, kStream));
}

}  // namespace
}  // namespace stalloc::runtime
