// LargeRooms: a large block keeps to the end of its room that keeps still, and where it lay is known.
#include "runtime/device/large_rooms.h"

#include <gtest/gtest.h>

#include <optional>

namespace stalloc::runtime {
namespace {

constexpr Granule kPage = kPageGranules;

class LargeRoomsTest : public ::testing::Test {
 protected:
  // The page at which a block of `pages` begins, in a room of whole pages.
  Granule Place(Granule begin, Granule end, Granule pages) {
    return rooms_.Place({begin * kPage, end * kPage}, {begin * kPage, (begin + pages) * kPage}).begin / kPage;
  }

  LargeRooms rooms_;
};

TEST_F(LargeRoomsTest, TheFirstOfItsSizeLiesInFront) { EXPECT_EQ(Place(10, 100, 40), 10u); }

TEST_F(LargeRoomsTest, WhereOnlyTheFrontMovesItGoesToTheEnd) {
  Place(10, 100, 40);
  EXPECT_EQ(Place(13, 100, 40), 60u);
  EXPECT_EQ(Place(8, 100, 40), 60u);
}

TEST_F(LargeRoomsTest, WhereNothingMovesItStays) {
  EXPECT_EQ(Place(10, 100, 40), 10u);
  EXPECT_EQ(Place(10, 100, 40), 10u);
  Place(13, 100, 40);
  EXPECT_EQ(Place(13, 100, 40), 60u) << "the front happens to be where it was; the block has moved to the end before";
}

TEST_F(LargeRoomsTest, AnEndThatMovesIsNoBetterThanTheFront) {
  Place(10, 100, 40);
  Place(13, 100, 40);
  EXPECT_EQ(Place(13, 90, 40), 13u);
  EXPECT_EQ(Place(11, 95, 40), 11u);
}

TEST_F(LargeRoomsTest, EachSizeHasItsOwnRoom) {
  Place(10, 100, 40);
  Place(10, 300, 50);
  EXPECT_EQ(Place(12, 100, 40), 60u);
  EXPECT_EQ(Place(12, 300, 50), 250u);
}

TEST_F(LargeRoomsTest, OnAPageBoundaryAndNeverBeforeTheFront) {
  const Granule granules = 40 * kPage - 3;
  runtime::Run room{10 * kPage, 100 * kPage + 5};
  rooms_.Place(room, {room.begin, room.begin + granules});
  room.begin += kPage;
  const runtime::Run placed = rooms_.Place(room, {room.begin, room.begin + granules});
  EXPECT_EQ(placed, (runtime::Run{60 * kPage, 60 * kPage + granules}));

  const Granule all = 90 * kPage;
  runtime::Run tight{10 * kPage, 100 * kPage + 1};
  rooms_.Place(tight, {tight.begin, tight.begin + all});
  tight.begin += 1;
  EXPECT_EQ(rooms_.Place(tight, {tight.begin, tight.begin + all}).begin, tight.begin);
}

TEST_F(LargeRoomsTest, TheLastOfItsSizeLayWhereItWasLaid) {
  const auto last = [&](Granule pages) {
    const auto run = rooms_.Last(pages * kPage);
    return run ? std::optional(run->begin / kPage) : std::nullopt;
  };
  EXPECT_EQ(last(40), std::nullopt);
  Place(10, 100, 40);
  EXPECT_EQ(last(40), 10u);
  EXPECT_EQ(last(50), std::nullopt);
  Place(13, 100, 40);
  EXPECT_EQ(last(40), 60u) << "not where it was proposed";
  Place(20, 90, 40);
  EXPECT_EQ(last(40), 20u);
}

TEST_F(LargeRoomsTest, SizesThatAreNoLongerAskedForGiveWay) {
  Place(10, 100, 40);
  for (Granule pages = 50; pages < 50 + LargeRooms::kPart; ++pages) Place(10, 1000, pages);
  EXPECT_EQ(rooms_.Last(40 * kPage), std::nullopt);
  EXPECT_EQ(Place(13, 100, 40), 13u) << "known no longer";
  EXPECT_EQ(Place(14, 100, 40), 60u);
}

}  // namespace
}  // namespace stalloc::runtime
