// MappingBudget: when stitching takes too much of the time, and what is given for it; alone, and in a DeviceMemory
// whose program never repeats a size.
#include "runtime/mapping_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "device_memory_fixture.h"

namespace stalloc::runtime {
namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;

// A program with one gigabyte live at its peak that hands out twice as much in a millisecond.
struct Program {
  MappingBudget budget{std::nullopt};
  MappingBudget::Moment moment{.now_ns = 0, .allocated_bytes = 0, .peak_live_bytes = std::uint64_t{1} << 30};

  // Works for so long, of which `share` goes into stitching. True: the budget was exceeded at some time.
  bool Work(unsigned milliseconds, double share) {
    bool exceeded = false;
    for (unsigned i = 0; i < milliseconds; ++i) {
      moment.now_ns += kMillisecond;
      moment.allocated_bytes += std::uint64_t{2} << 30;
      exceeded |= budget.Spent(static_cast<std::uint64_t>(share * kMillisecond), moment);
    }
    return exceeded;
  }
};

TEST(MappingBudget, WhatIsWithinItChangesNothing) {
  Program program;
  EXPECT_FALSE(program.Work(5000, 0.9 * MappingBudget::kShare));
  EXPECT_EQ(program.budget.growth(), 1.0);
  EXPECT_FALSE(program.budget.waits_first());
}

TEST(MappingBudget, WhatStaysAboveItIsExceeded) {
  Program program;
  EXPECT_TRUE(program.Work(1000, 2 * MappingBudget::kShare));
}

TEST(MappingBudget, WhatDiesOutByItselfIsLeftAlone) {
  Program program;
  bool exceeded = false;
  for (double share = 0.9; share > 0.001; share *= 0.4) exceeded |= program.Work(51, share);
  EXPECT_FALSE(exceeded);
}

TEST(MappingBudget, APeakThatStillRisesIsNotJudged) {
  Program program;
  bool exceeded = false;
  for (int i = 0; i < 100; ++i) {
    program.moment.peak_live_bytes += program.moment.peak_live_bytes / 32;
    exceeded |= program.Work(20, 0.5);
  }
  EXPECT_FALSE(exceeded);
}

TEST(MappingBudget, GivesMoreTheMoreIsSpentAndNotWithoutEnd) {
  Program little;
  Program much;
  ASSERT_TRUE(little.Work(1000, 1.5 * MappingBudget::kShare));
  ASSERT_TRUE(much.Work(1000, 8 * MappingBudget::kShare));
  little.budget.Exceed(true);
  much.budget.Exceed(true);
  EXPECT_TRUE(little.budget.waits_first());
  EXPECT_GT(little.budget.growth(), 1.0);
  EXPECT_GT(much.budget.growth(), little.budget.growth());
  for (int i = 0; i < 100; ++i) much.budget.Exceed(true);
  EXPECT_EQ(much.budget.growth(), MappingBudget::kMostGrowth);
}

TEST(MappingBudget, WhereMemoryIsNotAmpleItIsOnlyWaitedFor) {
  Program program;
  ASSERT_TRUE(program.Work(1000, 0.5));
  program.budget.Exceed(false);
  EXPECT_TRUE(program.budget.waits_first());
  EXPECT_EQ(program.budget.growth(), 1.0);
}

TEST(MappingBudget, ShortMemoryTakesItBack) {
  Program program;
  program.budget.Exceed(true);
  program.budget.MemoryIsShort();
  EXPECT_EQ(program.budget.growth(), 1.0);
}

TEST(MappingBudget, WhatTheUserHasChosenStays) {
  Program program{.budget = MappingBudget(1.25)};
  EXPECT_FALSE(program.Work(5000, 1.0));
  program.budget.MemoryIsShort();
  EXPECT_EQ(program.budget.growth(), 1.25);
}

// Blocks of ever new sizes that end in another order than they began: nothing finds the place of the one before. A
// request takes ten microseconds, a mapping forty.
class MappingBudgetInMemory : public DeviceMemoryTest {
 protected:
  struct Outcome {
    std::uint64_t early_maps = 0;  // in the first quarter of the run
    std::uint64_t late_maps = 0;   // in the last
    double held = 0.0;             // over the peak of live bytes
  };

  Outcome Run(std::optional<double> growth, std::uint64_t device_bytes) {
    device_ = model::Device{};
    device_.total_bytes = device_bytes;
    std::uint64_t requests = 0;
    auto memory =
        Make({.growth = growth, .clock_ns = [&] { return requests * 10'000 + device_.calls["cuMemMap"] * 40'000; }});
    std::mt19937 random(7);
    std::vector<CUdeviceptr> live;
    std::vector<std::uint64_t> maps{0};
    constexpr std::uint64_t kRequests = 40'000;
    while (requests < kRequests) {
      const std::size_t bytes = (1 + random() % 24) * kMiB + random() % kMiB;
      const auto made = memory->Allocate(bytes, On(0), 0);
      if (made.result != CUDA_SUCCESS) break;
      live.push_back(made.address);
      while (live.size() > 32) {
        std::swap(live[random() % live.size()], live.back());
        EXPECT_EQ(memory->Free(live.back(), On(0)), CUDA_SUCCESS);
        live.pop_back();
      }
      if (++requests % (kRequests / 4) == 0) maps.push_back(memory->Counters().map_calls);
    }
    const MemoryCounters counters = memory->Counters();
    EXPECT_EQ(maps.size(), 5u) << counters.peak_live_bytes / kMiB << " MiB live";
    return {.early_maps = maps[1],
            .late_maps = maps.back() - maps[maps.size() - 2],
            .held = static_cast<double>(counters.peak_reserved_bytes) / static_cast<double>(counters.peak_live_bytes)};
  }
};

TEST_F(MappingBudgetInMemory, HoldsMoreWhereStitchingWouldTakeTheTime) {
  const Outcome least = Run(1.0, 64 * 1024 * kMiB);
  const Outcome automatic = Run(std::nullopt, 64 * 1024 * kMiB);
  EXPECT_GT(automatic.held, least.held);
  EXPECT_LE(automatic.held, MappingBudget::kMostGrowth + least.held - 1.0);
  EXPECT_LT(2 * automatic.late_maps, least.late_maps) << "in " << automatic.early_maps << " before";
}

TEST_F(MappingBudgetInMemory, HoldsNoMoreOnADeviceThatIsNearlyFull) {
  const Outcome least = Run(1.0, 640 * kMiB);
  const Outcome automatic = Run(std::nullopt, 640 * kMiB);
  EXPECT_LE(automatic.held, least.held + 0.005);
}

}  // namespace
}  // namespace stalloc::runtime
