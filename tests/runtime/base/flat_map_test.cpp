// FlatMap: what is not there is not erased.
#include "runtime/base/flat_map.h"

#include <gtest/gtest.h>

namespace stalloc::runtime {
namespace {

// An empty place has 0 for its key.
TEST(FlatMap, ZeroIsNoKey) {
  FlatMap<int> map(4);
  EXPECT_FALSE(map.Erase(0));
  EXPECT_EQ(map.size(), 0u);
  map.Insert(7, 1);
  EXPECT_FALSE(map.Erase(0));
  EXPECT_EQ(map.size(), 1u);
  map.Clear();
  EXPECT_EQ(map.size(), 0u);
  EXPECT_EQ(map.Find(7), nullptr);
}

}  // namespace
}  // namespace stalloc::runtime
