#include "runtime/pages/free_history.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace stalloc::runtime {
namespace {

constexpr PageNumber kAlways = 0;
constexpr PageNumber kSometimes = 1;
constexpr PageNumber kNever = 2;
constexpr PageNumber kPages = 3;

TEST(FreeHistory, OfAPageThatWasNeverFreeIsNone) {
  FreeHistory history(kPages);
  EXPECT_EQ(history.Share(kNever), 0.0F);
  history.Note(std::vector<PageNumber>{kAlways});
  EXPECT_EQ(history.Share(kNever), 0.0F);
}

TEST(FreeHistory, EachTimeCountsAnEighthLessThanTheNext) {
  FreeHistory history(kPages);
  history.Note(std::vector<PageNumber>{kAlways, kSometimes});
  EXPECT_FLOAT_EQ(history.Share(kSometimes), 1.0F / 8);
  history.Note(std::vector<PageNumber>{kAlways});
  EXPECT_FLOAT_EQ(history.Share(kSometimes), 7.0F / 64);
  history.Note(std::vector<PageNumber>{kAlways, kSometimes});
  EXPECT_FLOAT_EQ(history.Share(kSometimes), 49.0F / 512 + 1.0F / 8);
  EXPECT_GT(history.Share(kAlways), history.Share(kSometimes));
}

TEST(FreeHistory, OfAPageThatIsAlwaysFreeIsAllOfIt) {
  FreeHistory history(kPages);
  for (int i = 0; i < 200; ++i) history.Note(std::vector<PageNumber>{kAlways});
  EXPECT_NEAR(history.Share(kAlways), 1.0F, 1e-5F);
}

TEST(FreeHistory, WhatWasLongAgoIsForgotten) {
  FreeHistory history(kPages);
  for (int i = 0; i < 200; ++i) history.Note(std::vector<PageNumber>{kSometimes});
  for (int i = 1; i <= 200; ++i) {
    history.Note({});
    EXPECT_NEAR(history.Share(kSometimes), std::pow(0.875F, i), 3e-4F);
  }
  EXPECT_EQ(history.Share(kSometimes), 0.0F);
}

}  // namespace
}  // namespace stalloc::runtime
