// MemorySearch: where in its room a block lies.
#include "runtime/device/memory_search.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace stalloc::runtime
