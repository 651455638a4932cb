#include "runtime/learning/seen.h"

#include <gtest/gtest.h>

namespace stalloc::runtime {
namespace {

TEST(SeenOrder, SaysWhenAStreamCameBehindAFree) {
  SeenOrder order;
  order.Add(1, {2, 10}, 100);
  order.Add(1, {2, 20}, 200);
  order.Add(3, {2, 15}, 150);
  EXPECT_EQ(order.BehindAt(1, {2, 5}, 90), 100);
  EXPECT_EQ(order.BehindAt(1, {2, 11}, 120), 200);
  EXPECT_EQ(order.BehindAt(3, {2, 11}, 120), 150);
  EXPECT_EQ(order.BehindAt(1, {2, 21}, 210), std::nullopt);  // not yet
  EXPECT_EQ(order.BehindAt(2, {1, 1}, 10), std::nullopt);    // nothing is known of that pair
}

TEST(SeenOrder, AStreamIsBehindItsOwnFreesAndThoseOfNone) {
  const SeenOrder order;
  EXPECT_EQ(order.BehindAt(4, {4, 9}, 33), 33);
  EXPECT_EQ(order.BehindAt(4, {kNoStream, 0}, 34), 34);
}

TEST(SeenOrder, NobodyIsBehindAFreeBeforeItWasMade) {
  SeenOrder order;
  order.Add(1, {2, 10}, 100);
  EXPECT_EQ(order.BehindAt(1, {2, 10}, 140), 140);
}

TEST(SeenBlocks, RemembersWhenAndInWhoseOrderABlockWasFreed) {
  SeenBlocks blocks;
  blocks.Add(7, {.size_bytes = 512, .call_site = 3, .stream = 1});
  blocks.Add(8, {.size_bytes = 512, .call_site = 3, .stream = 1});
  blocks.Free(7, {2, 40}, 11);
  blocks.Free(99, {2, 41}, 12);  // of before it was watched
  ASSERT_NE(blocks.Find(7), nullptr);
  EXPECT_EQ(blocks.Find(7)->freed.position, 40u);
  EXPECT_EQ(blocks.Find(7)->freed_at, 11);
  EXPECT_EQ(blocks.Find(8)->freed_at, -1);
  EXPECT_EQ(blocks.Find(8)->occurrence, 1u);
}

TEST(SeenBeginning, HasTheLargeRequestsOfTheFirst) {
  SeenBeginning beginning;
  for (const std::uint64_t size : {std::uint64_t{512}, kPageBytes + 1, kPageBytes, 3 * kPageBytes, kPageBytes + 1})
    beginning.Add(size);
  EXPECT_EQ(beginning.LargeOfFirst(5), (std::vector<std::uint64_t>{kPageBytes + 1, 3 * kPageBytes, kPageBytes + 1}));
  EXPECT_EQ(beginning.LargeOfFirst(3), (std::vector<std::uint64_t>{kPageBytes + 1}));
  EXPECT_TRUE(beginning.LargeOfFirst(6).empty()) << "so many have not been seen";
}

// What comes behind a gap may be anything.
TEST(SeenBeginning, EndsAtAGap) {
  SeenBeginning beginning;
  beginning.Add(3 * kPageBytes);
  beginning.End();
  beginning.Add(5 * kPageBytes);
  EXPECT_EQ(beginning.LargeOfFirst(1), (std::vector<std::uint64_t>{3 * kPageBytes}));
  EXPECT_TRUE(beginning.LargeOfFirst(2).empty());
}

TEST(SeenBeginning, IsBounded) {
  SeenBeginning beginning;
  for (int i = 0; i < 100'000; ++i) beginning.Add(3 * kPageBytes);
  EXPECT_FALSE(beginning.LargeOfFirst(1000).empty());
  EXPECT_TRUE(beginning.LargeOfFirst(100'000).empty());
}

}  // namespace
}  // namespace stalloc::runtime
