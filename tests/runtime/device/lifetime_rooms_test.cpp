// LifetimeRooms: where blocks are sorted by whether they last, and where that ends again; alone, and in the memory of a
// program whose sizes differ from iteration to iteration.
#include "runtime/device/lifetime_rooms.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <vector>

#include "device_memory_fixture.h"

namespace stalloc::runtime {
namespace {

constexpr std::uint64_t kBytes = std::uint64_t{256} << 20;

// A program that keeps one of four blocks until a larger one is there, for which there is no one room; 20 ms an
// iteration.
class LifetimeRoomsTest : public ::testing::Test {
 protected:
  // So many iterations, in which mapping takes `share` of the time. `erratic`: which of the blocks is kept is random.
  void Go(int iterations, double share, bool erratic = false) {
    for (int i = 0; i < iterations; ++i) {
      const unsigned kept = erratic ? random_() % 4 : 1;
      std::uint64_t stays = 0;
      for (unsigned k = 0; k < 4; ++k) {
        const std::uint64_t block = Begin(kBytes);
        if (k == kept) {
          stays = block;
        } else {
          End(block);
        }
      }
      End(Begin(2 * kBytes));
      End(stays);
      moment_.now_ns += 20'000'000;
      moment_.allocated_bytes += 8 * kBytes;
      rooms_.Spent(static_cast<std::uint64_t>(share * 20e6), moment_);
    }
  }

  std::uint64_t Begin(std::uint64_t bytes) {
    const std::uint64_t key = ++keys_;
    if (!rooms_.watching()) return key;
    last_ = rooms_.Ask(GranulesOf(bytes));
    if (last_.path != 0) rooms_.Note(key, last_, GranulesOf(bytes), bytes > kBytes);
    return key;
  }
  void End(std::uint64_t key) {
    if (rooms_.watching()) rooms_.End(key, GranulesOf(kBytes));
  }
  bool EverSorts(int iterations, double share, bool erratic = false) {
    bool sorted = false;
    for (int i = 0; i < iterations && !sorted; ++i) {
      Go(1, share, erratic);
      sorted = rooms_.sorting();
    }
    return sorted;
  }

  LifetimeRooms rooms_;
  LifetimeRooms::Guess last_;
  CostWindow::Moment moment_{.peak_live_bytes = 4 * kBytes};
  std::uint64_t keys_ = 0;
  std::minstd_rand random_{3};
};

TEST_F(LifetimeRoomsTest, WhereMappingTakesNoTimeNobodyWatches) {
  Go(200, 0.5 * LifetimeRooms::kWorth);
  EXPECT_FALSE(rooms_.watching());
}

TEST_F(LifetimeRoomsTest, WhereItTakesTimeBlocksAreSortedWhenTheyAreKnown) {
  EXPECT_TRUE(EverSorts(40, 0.02));
  Begin(2 * kBytes);
  EXPECT_EQ(last_.room, LifetimeRooms::Room::kEnd);
}

TEST_F(LifetimeRoomsTest, SmallBlocksAreNot) {
  ASSERT_TRUE(EverSorts(40, 0.02));
  Begin(kPageBytes / 4);
  EXPECT_EQ(last_.room, LifetimeRooms::Room::kAny);
}

TEST_F(LifetimeRoomsTest, GoesOnWhileItHelps) {
  ASSERT_TRUE(EverSorts(40, 0.02));
  Go(200, 0.005);
  EXPECT_TRUE(rooms_.sorting());
}

TEST_F(LifetimeRoomsTest, EndsWhereItDoesNotHelpAndIsTriedAgainLater) {
  ASSERT_TRUE(EverSorts(40, 0.02));
  Go(40, 0.02);
  EXPECT_FALSE(rooms_.watching());
  EXPECT_TRUE(EverSorts(400, 0.02));
}

TEST_F(LifetimeRoomsTest, EndsWhereItHelpsNoLonger) {
  ASSERT_TRUE(EverSorts(40, 0.02));
  Go(100, 0.005);
  ASSERT_TRUE(rooms_.sorting());
  bool sorted = true;
  for (int i = 0; i < 100 && sorted; ++i) {
    Go(1, 0.03);
    sorted = rooms_.sorting();
  }
  EXPECT_FALSE(sorted);
}

TEST_F(LifetimeRoomsTest, WhatCannotBeToldIsNotSorted) { EXPECT_FALSE(EverSorts(400, 0.02, true)); }

TEST_F(LifetimeRoomsTest, EndsWhereTheProgramCannotBeToldAnyMore) {
  ASSERT_TRUE(EverSorts(40, 0.02));
  Go(40, 0.001);
  ASSERT_TRUE(rooms_.sorting());
  bool sorted = true;
  for (int i = 0; i < 100 && sorted; ++i) {
    Go(1, 0.001, true);
    sorted = rooms_.sorting();
  }
  EXPECT_FALSE(sorted);
}

// Eight layers, each with blocks of the same sizes in all iterations and with those of eight experts, of which none
// has, though all together do; then a block for which there is no one room, and all the way back. A request takes 60
// us, a mapping 40.
class LifetimeRoomsInMemory : public DeviceMemoryTest {
 protected:
  struct Outcome {
    std::uint64_t late_maps = 0;  // in the second half of the run
    double held = 0.0;            // over the peak of live bytes
  };

  Outcome Run(std::optional<double> growth) {
    device_ = model::Device{};
    device_.total_bytes = 64 * 1024 * kMiB;
    std::uint64_t requests = 0;
    auto memory =
        Make({.growth = growth, .clock_ns = [&] { return requests * 60'000 + device_.calls["cuMemMap"] * 40'000; }});
    const auto begin = [&](std::size_t bytes) {
      ++requests;
      const auto made = memory->Allocate(bytes, On(0), 0);
      EXPECT_EQ(made.result, CUDA_SUCCESS);
      return made.address;
    };
    const auto end = [&](CUdeviceptr block) { EXPECT_EQ(memory->Free(block, On(0)), CUDA_SUCCESS); };
    std::mt19937 random(11);
    std::uint64_t half = 0;
    constexpr int kIterations = 120;
    for (int i = 0; i < kIterations; ++i) {
      if (i == kIterations / 2) half = memory->Counters().map_calls;
      struct Expert {
        std::size_t tokens = 0;
        CUdeviceptr first_weights = 0, hidden = 0, activated = 0, second_weights = 0, out = 0;
      };
      struct Layer {
        CUdeviceptr input = 0, attention = 0, norm = 0, permuted = 0, joined = 0;
        std::vector<Expert> experts;
      };
      std::vector<Layer> layers;
      for (int l = 0; l < 8; ++l) {
        Layer& layer = layers.emplace_back();
        layer.input = begin(16 * kMiB);
        const CUdeviceptr scores = begin(48 * kMiB);
        layer.attention = begin(16 * kMiB);
        end(scores);
        layer.norm = begin(33 * kMiB);
        const CUdeviceptr copies = begin(32 * kMiB);
        layer.permuted = begin(32 * kMiB);
        end(copies);
        std::size_t left = 16384;
        for (std::size_t e = 8; e > 0; --e) {
          const std::size_t tokens = e == 1 ? left : left / e * (75 + random() % 50) / 100;
          left -= tokens;
          Expert& expert = layer.experts.emplace_back();
          expert.tokens = tokens;
          expert.first_weights = begin(8 * kMiB);
          expert.hidden = begin(tokens * 8192);
          expert.activated = begin(tokens * 8192);
          expert.second_weights = begin(8 * kMiB);
          expert.out = begin(tokens * 2048);
        }
        layer.joined = begin(32 * kMiB);
        for (const Expert& expert : layer.experts) end(expert.out);
        const CUdeviceptr back = begin(32 * kMiB);
        end(begin(64 * kMiB));
        end(back);
      }
      const CUdeviceptr scores = begin(150 * kMiB);
      const CUdeviceptr exact = begin(300 * kMiB);
      end(begin(300 * kMiB));
      end(exact);
      end(scores);
      for (; !layers.empty(); layers.pop_back()) {
        for (const Expert& expert : layers.back().experts) {
          const CUdeviceptr of_out = begin(expert.tokens * 2048);
          const CUdeviceptr of_activated = begin(expert.tokens * 8192);
          end(expert.activated);
          end(of_out);
          const CUdeviceptr of_hidden = begin(expert.tokens * 8192);
          end(of_activated);
          end(expert.hidden);
          end(of_hidden);
          end(expert.second_weights);
          end(expert.first_weights);
        }
        end(begin(48 * kMiB));
        end(layers.back().norm);
        end(layers.back().permuted);
        end(layers.back().joined);
        end(layers.back().attention);
        end(layers.back().input);
      }
    }
    const MemoryCounters counters = memory->Counters();
    return {.late_maps = counters.map_calls - half,
            .held = static_cast<double>(counters.peak_reserved_bytes) / static_cast<double>(counters.peak_live_bytes)};
  }
};

TEST_F(LifetimeRoomsInMemory, TheLargestBlockFindsThePagesThatItHad) {
  const Outcome best_fit = Run(1.0);
  const Outcome sorted = Run(std::nullopt);
  EXPECT_LT(3 * sorted.late_maps, best_fit.late_maps);
  EXPECT_LT(sorted.held, best_fit.held + 0.01);
}

}  // namespace
}  // namespace stalloc::runtime
