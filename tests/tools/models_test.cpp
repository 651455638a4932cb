// The models of other allocators: what holds for any allocator, and the rules by which each is known.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tools/models/allocator_model.h"
#include "tools/models/free_ranges.h"

namespace stalloc::tools {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

class AnyModel : public ::testing::TestWithParam<std::string> {};

TEST_P(AnyModel, HoldsAtLeastWhatLivesAndReusesWhatWasFreed) {
  const auto model = MakeAllocatorModel(GetParam());
  ASSERT_NE(model, nullptr);
  std::mt19937_64 random(7);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> live;
  std::uint64_t live_bytes = 0;
  for (std::uint64_t block = 0; block < 3000; ++block) {
    const std::uint64_t size = 1 + random() % (random() % 4 == 0 ? 30 * kMiB : 200'000);
    model->Allocate(block, size, random() % 2);
    live.emplace_back(block, size);
    live_bytes += size;
    EXPECT_GE(model->reserved_bytes(), live_bytes);
    while (live.size() > 60) {
      std::swap(live[random() % live.size()], live.back());
      model->Free(live.back().first);
      live_bytes -= live.back().second;
      live.pop_back();
    }
  }
  for (const auto& [block, size] : live) model->Free(block);
  const std::uint64_t held = model->reserved_bytes();
  model->Allocate(9999, 4 * kMiB, 0);
  EXPECT_EQ(model->reserved_bytes(), held) << "everything is free, and nothing of it was reused";
}

TEST_P(AnyModel, TheSameStepAgainNeedsNothingNew) {
  const auto model = MakeAllocatorModel(GetParam());
  std::uint64_t block = 0;
  std::uint64_t after_first = 0;
  for (int step = 0; step < 4; ++step) {
    std::vector<std::uint64_t> blocks;
    for (int i = 0; i < 50; ++i) {
      blocks.push_back(block);
      model->Allocate(block++, (static_cast<std::uint64_t>(i) * 977 % 40 + 1) * 300'000, 0);
    }
    for (const std::uint64_t each : blocks) model->Free(each);
    if (step == 0) after_first = model->map_calls();
  }
  EXPECT_EQ(model->map_calls(), after_first);
}

TEST_P(AnyModel, AnUnknownFreeChangesNothing) {
  const auto model = MakeAllocatorModel(GetParam());
  model->Free(5);
  EXPECT_EQ(model->reserved_bytes(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Models, AnyModel, ::testing::ValuesIn(AllocatorModelNames()), [](const auto& parameter) {
  std::string name = parameter.param;
  std::erase(name, '-');
  return name;
});

TEST(TorchCaching, SegmentsFollowTheRequest) {
  const auto reserved_for = [](std::uint64_t size) {
    const auto model = MakeTorchCaching();
    model->Allocate(0, size, 0);
    return model->reserved_bytes();
  };
  EXPECT_EQ(reserved_for(1), 2 * kMiB);
  EXPECT_EQ(reserved_for(kMiB), 2 * kMiB);
  EXPECT_EQ(reserved_for(kMiB + 1), 20 * kMiB);
  EXPECT_EQ(reserved_for(10 * kMiB - 512), 20 * kMiB);
  EXPECT_EQ(reserved_for(10 * kMiB), 10 * kMiB);
  EXPECT_EQ(reserved_for(11 * kMiB), 12 * kMiB);
}

TEST(TorchCaching, ALargeBlockIsNotSplitForTheLastMebibyte) {
  const auto model = MakeTorchCaching();
  model->Allocate(0, 12 * kMiB, 0);
  model->Free(0);
  model->Allocate(1, 11 * kMiB, 0);  // takes the 12 MiB block whole
  model->Allocate(2, 1 * kMiB, 0);   // small: a segment of its own in any case
  EXPECT_EQ(model->reserved_bytes(), 14 * kMiB);
  model->Allocate(3, kMiB + 512, 0);  // would fit into the rest if there were one
  EXPECT_EQ(model->reserved_bytes(), 34 * kMiB);
}

TEST(TorchCaching, StreamsDoNotShare) {
  const auto model = MakeTorchCaching();
  model->Allocate(0, 12 * kMiB, 0);
  model->Free(0);
  model->Allocate(1, 12 * kMiB, 1);
  EXPECT_EQ(model->reserved_bytes(), 24 * kMiB);
}

TEST(TorchExpandable, GrowsByTwentyMebibytesAndTakesTheGrowingEndLast) {
  const auto model = MakeTorchExpandable();
  model->Allocate(0, 12 * kMiB, 0);
  EXPECT_EQ(model->reserved_bytes(), 20 * kMiB);
  model->Allocate(1, 12 * kMiB, 0);  // 8 MiB at the end and one more page
  EXPECT_EQ(model->reserved_bytes(), 40 * kMiB);
  model->Free(0);  // 12 MiB inside, 16 MiB at the end: the inside one is taken, then the end
  model->Allocate(2, 10 * kMiB, 0);
  model->Allocate(3, 16 * kMiB, 0);
  EXPECT_EQ(model->reserved_bytes(), 40 * kMiB);
}

TEST(BestFitArena, GrowsOnlyByWhatTheFreeEndLacks) {
  const auto model = MakeBestFitArena();
  model->Allocate(0, 4 * kMiB, 0);
  model->Allocate(1, 6 * kMiB, 0);
  model->Free(1);
  model->Allocate(2, 8 * kMiB, 0);
  EXPECT_EQ(model->reserved_bytes(), 12 * kMiB);
}

TEST(CudaAsyncPool, ANewRequestDoesNotUseTheFreeEnd) {
  const auto model = MakeCudaAsyncPool();
  model->Allocate(0, 4 * kMiB, 0);
  model->Allocate(1, 6 * kMiB, 0);
  model->Free(1);
  model->Allocate(2, 8 * kMiB, 0);
  EXPECT_EQ(model->reserved_bytes(), 18 * kMiB);
}

//   0      4      8      12
//   [ free ][ live ][ free ]     a block that comes back joins both neighbours
TEST(FreeRanges, NeighboursMerge) {
  FreeRanges ranges;
  ranges.Insert({0, 4});
  ranges.Insert({8, 12});
  EXPECT_FALSE(ranges.TakeBestFit(5));
  ranges.Insert({4, 8});
  const auto whole = ranges.TakeBestFit(12);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->begin, 0u);
  EXPECT_EQ(whole->end, 12u);
  EXPECT_FALSE(ranges.TakeBestFit(1));
}

TEST(FreeRanges, TheSmallestThatFitsThenTheLowest) {
  FreeRanges ranges;
  ranges.Insert({100, 110});
  ranges.Insert({0, 20});
  ranges.Insert({50, 60});
  EXPECT_EQ(ranges.TakeBestFit(8)->begin, 50u);
  EXPECT_EQ(ranges.TakeBestFit(8)->begin, 100u);
  EXPECT_EQ(ranges.TakeBestFit(8)->begin, 0u);
}

}  // namespace
}  // namespace stalloc::tools
