// MemorySearch: which room, of which stream, and where in its room a block lies.
#include "runtime/device/memory_search.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "device_memory_fixture.h"

namespace stalloc::runtime {
namespace {

constexpr Granule kPage = kPageGranules;

TEST(MemorySearchTest, AtTheFrontOrTheEndOfItsRoom) {
  const runtime::Run room{10, 20 * kPage + 7};
  EXPECT_EQ(MemorySearch::FrontOf(room, 100), (runtime::Run{10, 110}));
  EXPECT_EQ(MemorySearch::EndOf(room, 100), (runtime::Run{20 * kPage - 93, 20 * kPage + 7}));
}

TEST(MemorySearchTest, BlocksOfWholePagesOnAPageWhereThereIsRoomForIt) {
  const Granule granules = 32 * kPage;
  const runtime::Run room{10, 50 * kPage + 7};
  EXPECT_EQ(MemorySearch::FrontOf(room, granules), (runtime::Run{kPage, 33 * kPage}));
  EXPECT_EQ(MemorySearch::EndOf(room, granules), (runtime::Run{18 * kPage, 50 * kPage}));
  const runtime::Run tight{10, 32 * kPage + 12};
  EXPECT_EQ(MemorySearch::FrontOf(tight, granules), (runtime::Run{10, 32 * kPage + 10}));
  EXPECT_EQ(MemorySearch::EndOf(tight, granules), (runtime::Run{12, 32 * kPage + 12}));
}

//  page   0    1    2    3    4    5
//       [##|.    .    .    .    .   |#]     a room: half of page 0, pages 1 to 4, three quarters of page 5
//       [#|.     .    .    .    .  |##]     or three quarters of page 0, and half of page 5
TEST(MemorySearchTest, WhereTheMostPagesStayWhole) {
  const runtime::Run more_at_end{kPage / 2, 5 * kPage + 3 * kPage / 4};
  const runtime::Run more_at_front{kPage / 4, 5 * kPage + kPage / 2};
  for (const Granule granules : {3 * kPage / 4, 11 * kPage / 4}) {  // elsewhere they would break a page more
    const auto front = [&](runtime::Run room) { return runtime::Run{room.begin, room.begin + granules}; };
    const auto end = [&](runtime::Run room) { return runtime::Run{room.end - granules, room.end}; };
    EXPECT_EQ(MemorySearch::KeepingPagesWhole(more_at_end, front(more_at_end)), end(more_at_end));
    EXPECT_EQ(MemorySearch::KeepingPagesWhole(more_at_end, end(more_at_end)), end(more_at_end));
    EXPECT_EQ(MemorySearch::KeepingPagesWhole(more_at_front, front(more_at_front)), front(more_at_front));
    EXPECT_EQ(MemorySearch::KeepingPagesWhole(more_at_front, end(more_at_front)), front(more_at_front));
  }
  EXPECT_EQ(MemorySearch::KeepingPagesWhole(more_at_end, more_at_end), more_at_end);
}

// A place that best fit chose for another reason is kept if the ends are no better.
TEST(MemorySearchTest, StaysWhereAsManyPagesAreWhole) {
  const runtime::Run room{kPage / 2, 12 * kPage};
  const runtime::Run aligned{kPage, 11 * kPage};
  EXPECT_EQ(MemorySearch::KeepingPagesWhole(room, aligned), aligned);
}

TEST(MemorySearchTest, SmallBlocksLieSideBySide) {
  const runtime::Run room{kPage - 10, 2 * kPage + 100};
  EXPECT_EQ(MemorySearch::KeepingPagesWhole(room, {room.begin, room.begin + 100}),
            (runtime::Run{room.begin, room.begin + 100}));
  const Granule quarter = kPage / 4;
  const runtime::Run larger{kPage - 10, 2 * kPage + quarter};
  EXPECT_EQ(MemorySearch::KeepingPagesWhole(larger, {larger.begin, larger.begin + quarter}),
            (runtime::Run{2 * kPage, larger.end}));
}

// Free: 300 granules at 100 behind one stream, 50 at 1000 that all streams may use, 200 at 2000 behind another stream.
class MemorySearchAcrossStreams : public ::testing::Test {
 protected:
  MemorySearchAcrossStreams() : space_(kPage) {
    space_.Claim({0, kPage});
    space_.Release({100, 400}, streams_.Advance(one_));
    space_.Release({1000, 1050}, {kNoStream, 0});
    space_.Release({2000, 2200}, streams_.Advance(other_));
  }

  std::optional<runtime::Run> Smallest(Granule granules, StreamIndex stream) const {
    return search_.ContiguousRoom(granules, stream, MemorySearch::Waits::kNo);
  }
  std::optional<runtime::Run> Lowest(Granule granules, StreamIndex stream) const {
    return search_.LowestRoom(granules, stream, 0, put_off_);
  }
  std::optional<runtime::Run> High(Granule granules, StreamIndex stream, Granule from = 0) const {
    return search_.HighRoom(granules, stream, from);
  }

  FlatMap<bool> put_off_;
  FreeSpace space_;
  ViewTable views_{kPageBytes};
  StreamTable streams_;
  StreamIndex one_ = streams_.IndexOf(Stream(1), nullptr);
  StreamIndex other_ = streams_.IndexOf(Stream(2), nullptr);
  MemorySearch search_{space_, views_, streams_};
};

TEST_F(MemorySearchAcrossStreams, TheSmallestOrTheLowestThatMayBeUsed) {
  EXPECT_EQ(Smallest(20, one_), (runtime::Run{1000, 1050}));
  EXPECT_EQ(Lowest(20, one_), (runtime::Run{100, 400}));
  EXPECT_EQ(Lowest(20, other_), (runtime::Run{1000, 1050}));
  EXPECT_EQ(Lowest(60, other_), (runtime::Run{2000, 2200}));
  EXPECT_EQ(Lowest(201, other_), std::nullopt);
}

TEST_F(MemorySearchAcrossStreams, TheLowestOfAnyStreamThisOneIsOrderedBehind) {
  streams_.Order(other_, streams_.Here(one_));
  EXPECT_EQ(Smallest(60, other_), (runtime::Run{2000, 2200}));
  EXPECT_EQ(Lowest(60, other_), (runtime::Run{100, 400}));
}

TEST_F(MemorySearchAcrossStreams, TheHighestButForTheLargestOfAllThatMayBeUsed) {
  EXPECT_EQ(High(20, other_), (runtime::Run{1000, 1050}));
  // The only one, and so the largest.
  EXPECT_EQ(High(60, other_), (runtime::Run{2000, 2200}));
  EXPECT_EQ(High(201, other_), std::nullopt);
  streams_.Order(other_, streams_.Here(one_));
  EXPECT_EQ(High(60, other_), (runtime::Run{2000, 2200}));
  EXPECT_EQ(High(201, other_), (runtime::Run{100, 400}));
}

TEST_F(MemorySearchAcrossStreams, WithoutAStreamWhatAllMayUse) {
  space_.Release({2500, 2600}, {kNoStream, 0});
  EXPECT_EQ(Lowest(20, kNoStream), (runtime::Run{1000, 1050}));
  EXPECT_EQ(High(20, kNoStream), (runtime::Run{1000, 1050}));
}

TEST_F(MemorySearchAcrossStreams, TheLowestThatIsPutOffOnlyWhereThereIsNoOther) {
  streams_.Order(other_, streams_.Here(one_));
  put_off_.Insert(100, true);
  EXPECT_EQ(Lowest(20, other_), (runtime::Run{1000, 1050}));
  EXPECT_EQ(Lowest(60, other_), (runtime::Run{2000, 2200}));
  EXPECT_EQ(Lowest(201, other_), (runtime::Run{100, 400}));
}

//  100        400    1000   1050
//   |..........|      |......|        at an end, or all of it; not in the middle, nor beyond
TEST_F(MemorySearchAcrossStreams, AtAnEndOfItsRoom) {
  const auto at_end = [&](Granule begin, Granule end, StreamIndex stream) {
    return search_.UsableAtEndOfRoom({begin, end}, stream);
  };
  EXPECT_TRUE(at_end(100, 250, one_));
  EXPECT_TRUE(at_end(250, 400, one_));
  EXPECT_TRUE(at_end(100, 400, one_));
  EXPECT_FALSE(at_end(101, 399, one_)) << "it would split the room";
  EXPECT_FALSE(at_end(99, 250, one_));
  EXPECT_FALSE(at_end(250, 401, one_));
  EXPECT_FALSE(at_end(100, 250, other_)) << "another stream's";
  EXPECT_TRUE(at_end(1000, 1050, other_));
  space_.Release({0, 100}, {kNoStream, 0});
  EXPECT_TRUE(at_end(0, 50, one_)) << "nothing is before it";
  EXPECT_FALSE(at_end(100, 250, one_)) << "its room begins at 0 now";
  const Granule all = space_.size();
  space_.Release({all - 20, all}, {kNoStream, 0});
  EXPECT_TRUE(at_end(all - 10, all, one_)) << "nothing is behind it";
}

TEST_F(MemorySearchAcrossStreams, TheLowestBehindWhereToBegin) {
  EXPECT_EQ(search_.LowestRoom(20, other_, 1010, put_off_), (runtime::Run{1010, 1050}));
}

TEST_F(MemorySearchAcrossStreams, TheHighestBehindWhereToBegin) {
  streams_.Order(other_, streams_.Here(one_));
  // The room at 100 is smaller from there on than that at 2000.
  EXPECT_EQ(High(60, other_, 300), (runtime::Run{300, 400}));
  EXPECT_EQ(High(60, other_, 350), (runtime::Run{2000, 2200}));
}

// A view of the first eight pages, of which the first is in use; what else exists is in use too.
class MemorySearchExchange : public ::testing::Test {
 protected:
  static constexpr PageNumber kPages = 64;
  static constexpr PageNumber kOfView = 8;

  void MakeView(PageNumber existing_pages) {
    std::vector<PageNumber> pages(kOfView);
    std::iota(pages.begin(), pages.end(), 0);
    view_ = views_.Add(*views_.TakeAddresses(kOfView), pages, 0);
    space_.Claim({0, existing_pages * kPage});
    space_.Release({kPage, kOfView * kPage}, {kNoStream, 0});
  }
  Found Exchange(PageNumber max_new_pages, Granule from) {
    return search_.Exchange(kOfView * kPage, kNoStream, MemorySearch::Waits::kNo, max_new_pages, from);
  }

  FreeSpace space_{kPages * kPage};
  ViewTable views_{kPages * kPageBytes};
  StreamTable streams_;
  MemorySearch search_{space_, views_, streams_};
  ViewIndex view_ = kNoView;
};

// Of the two pages that it may take instead, the one at 9 is free each time, and the other only in the end, in the
// larger room.
TEST_F(MemorySearchExchange, ForThePageThatWasFreeMostOften) {
  constexpr PageNumber kOften = 9;
  constexpr runtime::Run kLarger{20 * kPage, 22 * kPage};
  MakeView(kPages);
  space_.Release({kOften * kPage, (kOften + 1) * kPage}, {kNoStream, 0});

  const auto exchange = [&] {
    const Found found = Exchange(0, 0);
    EXPECT_EQ(found.kind, Found::Kind::kExchange);
    EXPECT_EQ(found.view, view_);
    EXPECT_EQ(found.exchanged, std::vector<std::uint32_t>{0});
    return found.pages.empty() ? kPages : found.pages[0];
  };
  EXPECT_EQ(exchange(), kOften);
  space_.Release(kLarger, {kNoStream, 0});
  EXPECT_EQ(exchange(), kOften);

  // Where that is in use, the other has to do.
  space_.Claim({kOften * kPage, (kOften + 1) * kPage});
  EXPECT_EQ(exchange(), kLarger.begin / kPage);
}

TEST_F(MemorySearchExchange, ForNoMorePagesThatDoNotExistThanItMay) {
  MakeView(kOfView);
  EXPECT_FALSE(Exchange(0, 0));
  const Found lowest = Exchange(1, 0);
  ASSERT_EQ(lowest.kind, Found::Kind::kExchange);
  EXPECT_EQ(lowest.new_pages, 1u);
  EXPECT_EQ(lowest.pages[0], 8u);
  EXPECT_EQ(Exchange(1, 30 * kPage).pages[0], 30u);
}

}  // namespace
}  // namespace stalloc::runtime
