// TimeBudget: when the least memory costs too much time, and what is given for it; alone, in a DeviceMemory whose
// program never repeats a size, and in one whose memory another stream is slow to be done with.
#include "runtime/device/time_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>

#include "device_memory_fixture.h"

namespace stalloc::runtime {
namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;

// A program with one gigabyte live at its peak that hands out twice as much in a millisecond.
struct Program {
  TimeBudget budget{std::nullopt};
  TimeBudget::Moment moment{.now_ns = 0, .allocated_bytes = 0, .peak_live_bytes = std::uint64_t{1} << 30};
  std::uint64_t bytes_per_ms = std::uint64_t{2} << 30;

  // Works for so long, of which `share` is what the least memory costs. True: the budget was exceeded at some time.
  bool Work(unsigned milliseconds, double share) {
    bool exceeded = false;
    for (unsigned i = 0; i < milliseconds; ++i) {
      moment.now_ns += kMillisecond;
      moment.allocated_bytes += bytes_per_ms;
      exceeded |= budget.Spent(static_cast<std::uint64_t>(share * kMillisecond), moment);
    }
    return exceeded;
  }
};

TEST(TimeBudget, WhatIsWithinItChangesNothing) {
  Program program;
  EXPECT_FALSE(program.Work(5000, 0.9 * TimeBudget::kShare));
  EXPECT_EQ(program.budget.growth(), 1.0);
}

TEST(TimeBudget, WhatStaysAboveItIsExceeded) {
  Program program;
  EXPECT_TRUE(program.Work(2000, 2 * TimeBudget::kShare));
}

// Four windows of four times the peak, however long they take: here two seconds each.
TEST(TimeBudget, NotBeforeMemoryWasHandedOutOftenEnough) {
  Program program{.bytes_per_ms = (std::uint64_t{1} << 30) / 500};
  EXPECT_FALSE(program.Work(7900, 0.5));
  EXPECT_TRUE(program.Work(300, 0.5));
}

TEST(TimeBudget, WhatDiesOutByItselfIsLeftAlone) {
  Program program;
  bool exceeded = false;
  for (double share = 0.9; share > 0.001; share *= 0.4) exceeded |= program.Work(251, share);
  EXPECT_FALSE(exceeded);
}

TEST(TimeBudget, APeakThatStillRisesIsNotJudged) {
  Program program;
  bool exceeded = false;
  for (int i = 0; i < 100; ++i) {
    program.moment.peak_live_bytes += program.moment.peak_live_bytes / 32;
    exceeded |= program.Work(760, 0.5);  // three windows
  }
  EXPECT_FALSE(exceeded);
}

TEST(TimeBudget, GivesMoreTheMoreIsSpent) {
  Program little;
  Program much;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(little.Work(2000, 1.5 * TimeBudget::kShare));
    ASSERT_TRUE(much.Work(2000, 8 * TimeBudget::kShare));
    little.budget.Raise(TimeBudget::kMostGrowth);
    much.budget.Raise(TimeBudget::kMostGrowth);
  }
  EXPECT_GT(little.budget.growth(), 1.0);
  EXPECT_GT(much.budget.growth(), little.budget.growth());
}

// Each step more lowers the cost by a sixth, until it is within the budget.
TEST(TimeBudget, EndsWhereTheBudgetIsKept) {
  Program program;
  double share = 0.4;
  while (program.Work(2000, share)) {
    ASSERT_LT(program.budget.growth(), TimeBudget::kMostGrowth);
    program.budget.Raise(TimeBudget::kMostGrowth);
    share = 0.4 * std::pow(5.0 / 6.0, (program.budget.growth() - 1.0) / TimeBudget::kStep);
  }
  EXPECT_LE(share, TimeBudget::kShare);
}

TEST(TimeBudget, GivesAsMuchAtOnceAsTheCostSays) {
  for (const double share : {3 * TimeBudget::kShare, 6 * TimeBudget::kShare}) {  // less than 15 %
    Program program;
    ASSERT_TRUE(program.Work(2000, share));
    program.budget.Raise(TimeBudget::kMostGrowth);
    EXPECT_NEAR(program.budget.growth(), 1.0 + share / 2, 1e-3);
  }
}

TEST(TimeBudget, GivesNoMoreThanThereIs) {
  Program program;
  ASSERT_TRUE(program.Work(2000, 0.5));
  program.budget.Raise(1.07);
  EXPECT_EQ(program.budget.growth(), 1.07);
}

TEST(TimeBudget, StopsEarlyWhereMuchDoesNotHelp) {
  for (const double share : {0.16, 0.5, 0.9}) {
    Program program;
    unsigned raises = 0;
    for (; program.Work(2000, share) && program.budget.Raise(TimeBudget::kMostGrowth); ++raises) {
    }
    EXPECT_EQ(raises, 2u) << share;
    EXPECT_LE(program.budget.growth(), 1.3 + 1e-9) << share;
    EXPECT_FALSE(program.Work(5000, share)) << "and never again";
  }
}

// Between the two, another thread began a window anew.
TEST(TimeBudget, GivesNothingWhereNothingIsKnown) {
  Program program;
  ASSERT_TRUE(program.Work(2000, 0.5));
  program.budget.Pause();
  EXPECT_FALSE(program.budget.Raise(TimeBudget::kMostGrowth));
  EXPECT_EQ(program.budget.growth(), 1.0);
}

TEST(TimeBudget, GivesNoMoreWhereThatDoesNotHelp) {
  Program program;
  unsigned raises = 0;
  for (; program.Work(2000, 1.5 * TimeBudget::kShare); ++raises) program.budget.Raise(TimeBudget::kMostGrowth);
  EXPECT_LT(raises, 10u);
  EXPECT_LT(program.budget.growth(), 1.1);
}

TEST(TimeBudget, ShortMemoryTakesItBack) {
  Program program;
  ASSERT_TRUE(program.Work(2000, 0.5));
  program.budget.Raise(TimeBudget::kMostGrowth);
  ASSERT_GT(program.budget.growth(), 1.0);
  program.budget.MemoryIsShort();
  EXPECT_EQ(program.budget.growth(), 1.0);
  EXPECT_TRUE(program.Work(2000, 0.5)) << "and given again";
}

TEST(TimeBudget, WhatIsSpentDuringAPauseDoesNotCount) {
  Program program;
  bool exceeded = false;
  for (int i = 0; i < 100; ++i) {
    exceeded |= program.Work(760, 0.5);  // three windows
    program.budget.Pause();
  }
  EXPECT_FALSE(exceeded);
  EXPECT_TRUE(program.Work(2000, 0.5)) << "and afterwards";
}

TEST(TimeBudget, NorDoesThePauseItself) {
  Program program;
  ASSERT_TRUE(program.Work(2000, 0.5));
  program.budget.Raise(TimeBudget::kMostGrowth);  // from now on one window is enough
  program.budget.Pause();
  program.moment.now_ns += kMillisecond;
  EXPECT_FALSE(program.budget.Spent(100 * kMillisecond, program.moment));
  EXPECT_FALSE(program.Work(2000, 0.9 * TimeBudget::kShare));
}

TEST(TimeBudget, WhatTheUserHasChosenStays) {
  Program program{.budget = TimeBudget(1.25)};
  EXPECT_FALSE(program.Work(5000, 1.0));
  program.budget.MemoryIsShort();
  EXPECT_EQ(program.budget.growth(), 1.25);
}

// Blocks of ever new sizes that end in another order than they began: nothing finds the place of the one before. A
// request takes twenty microseconds, a mapping two hundred.
class TimeBudgetInMemory : public DeviceMemoryTest {
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
        Make({.growth = growth, .clock_ns = [&] { return requests * 20'000 + device_.calls["cuMemMap"] * 200'000; }});
    std::mt19937 random(7);
    std::vector<CUdeviceptr> live;
    std::vector<std::uint64_t> maps{0};
    constexpr std::uint64_t kRequests = 400'000;
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

TEST_F(TimeBudgetInMemory, HoldsMoreWhereStitchingWouldTakeTheTime) {
  const Outcome least = Run(1.0, 64 * 1024 * kMiB);
  const Outcome automatic = Run(std::nullopt, 64 * 1024 * kMiB);
  EXPECT_GT(automatic.held, least.held);
  EXPECT_LE(automatic.held, TimeBudget::kMostGrowth + least.held - 1.0);
  EXPECT_LT(2 * automatic.late_maps, least.late_maps) << "in " << automatic.early_maps << " before";
}

TEST_F(TimeBudgetInMemory, HoldsNoMoreOnADeviceThatIsNearlyFull) {
  const Outcome least = Run(1.0, 640 * kMiB);
  const Outcome automatic = Run(std::nullopt, 640 * kMiB);
  EXPECT_LE(automatic.held, least.held + 0.005);
}

TEST_F(TimeBudgetInMemory, HoldsAsMuchMoreAsThereIs) {
  const Outcome least = Run(1.0, 64 * 1024 * kMiB);
  const Outcome automatic = Run(std::nullopt, 64 * 1024 * kMiB);
  const Outcome some = Run(std::nullopt, 730 * kMiB);
  EXPECT_GT(some.held, least.held + TimeBudget::kStep);
  EXPECT_LT(some.held, automatic.held - TimeBudget::kStep);
}

// Sixteen blocks live, the oldest of which is copied on a second stream and freed there, whose work is always four
// copies late; beside them small ones that do not leave the main stream. A wait costs that two milliseconds, an
// iteration takes ten.
class TimeBudgetOfWaits : public DeviceMemoryTest {
 protected:
  struct Outcome {
    std::uint64_t late_waits = 0;  // in the last quarter of the run
    double held = 0.0;             // over the peak of live bytes
    double may_hold = 0.0;         // likewise, as it is reported
    std::uint64_t stalled_ms = 0;  // for each measured wait two
  };

  Outcome Run(std::optional<double> growth) {
    device_ = model::Device{};
    device_.elapsed_ms = 2.0F;
    std::uint64_t iterations = 0;
    auto memory = Make({.growth = growth, .clock_ns = [&] { return iterations * 10'000'000; }});
    constexpr std::uint64_t kIterations = 8000;
    constexpr std::size_t kBytes = 2 * kMiB;
    std::deque<DeviceMemory::Allocation> live;
    std::uint64_t early_waits = 0;
    for (; iterations < kIterations; ++iterations) {
      if (iterations == kIterations * 3 / 4) early_waits = memory->Counters().waits_inserted;
      live.push_back(memory->Allocate(kBytes, On(0), 0));
      device_.Touch(Stream(0), live.back().address, kBytes, live.back().number);
      for (int i = 0; i < 2; ++i)
        EXPECT_EQ(memory->Free(memory->Allocate(1000, On(0), 0).address, On(0)), CUDA_SUCCESS);
      if (live.size() < 16) continue;
      const DeviceMemory::Allocation oldest = live.front();
      live.pop_front();
      OrderBehind(memory.get(), 1, 0);
      device_.Touch(Stream(1), oldest.address, kBytes, oldest.number);
      EXPECT_EQ(memory->Free(oldest.address, On(1)), CUDA_SUCCESS);
      if (device_.submitted[Stream(1)] - device_.executed[Stream(1)] > 4) device_.Execute(Stream(1), 1);
    }
    const MemoryCounters counters = memory->Counters();
    const auto peak = static_cast<double>(counters.peak_live_bytes);
    EXPECT_LE(counters.stalled_ns / 2'000'000, counters.waits_inserted);
    return {.late_waits = counters.waits_inserted - early_waits,
            .held = static_cast<double>(counters.peak_reserved_bytes) / peak,
            .may_hold = 1.0 + static_cast<double>(counters.growth_bytes) / peak,
            .stalled_ms = counters.stalled_ns / kMillisecond};
  }
};

TEST_F(TimeBudgetOfWaits, HoldsMoreWhereTheMainStreamWouldStandStill) {
  const Outcome least = Run(1.0);
  const Outcome automatic = Run(std::nullopt);
  EXPECT_LT(4 * automatic.late_waits, least.late_waits);
  EXPECT_GT(automatic.held, 1.2);
  EXPECT_LE(automatic.held, automatic.may_hold + 0.1);
  EXPECT_LE(automatic.may_hold, TimeBudget::kMostGrowth);
  EXPECT_GT(automatic.stalled_ms, 0u);
  EXPECT_EQ(least.may_hold, 1.0);
  EXPECT_EQ(least.stalled_ms, 0u) << "nobody asks";
}

}  // namespace
}  // namespace stalloc::runtime
