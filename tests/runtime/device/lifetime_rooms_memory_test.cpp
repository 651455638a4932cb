// LifetimeRooms in the memory of a program whose sizes differ from iteration to iteration: what sorting saves.
#include "runtime/device/lifetime_rooms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "device_memory_fixture.h"

namespace stalloc::runtime {
namespace {

// Eight layers, each with blocks of the same sizes in all iterations and with those of eight experts, of which none
// has, though all together do; then a block for which there is no one room, and all the way back. A request takes 60
// us, a mapping 40.
class LifetimeRoomsInMemory : public DeviceMemoryTest {
 protected:
  struct Outcome {
    std::uint64_t late_maps = 0;  // in the second half of the run
    double held = 0.0;            // over the peak of live bytes
    double lasting_mib = 0.0;     // above the lowest block, on average in the second half: where blocks lie that last
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
    CUdeviceptr lowest = ~CUdeviceptr{0};
    std::vector<CUdeviceptr> lasting;
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
        const CUdeviceptr mask = begin(20 * kMiB);
        end(scores);
        layer.attention = begin(16 * kMiB);
        lowest = std::min(lowest, layer.attention);
        if (i >= kIterations / 2) lasting.push_back(layer.attention);
        end(mask);
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
    Outcome outcome{
        .late_maps = counters.map_calls - half,
        .held = static_cast<double>(counters.peak_reserved_bytes) / static_cast<double>(counters.peak_live_bytes)};
    for (const CUdeviceptr block : lasting)
      outcome.lasting_mib += static_cast<double>(block - lowest) / kMiB / static_cast<double>(lasting.size());
    return outcome;
  }
};

TEST_F(LifetimeRoomsInMemory, TheLargestBlockFindsThePagesThatItHad) {
  const Outcome best_fit = Run(1.0);
  const Outcome sorted = Run(std::nullopt);
  EXPECT_LT(3 * sorted.late_maps, best_fit.late_maps);
  EXPECT_LT(sorted.held, best_fit.held + 0.01);
  // Not in rooms between or above blocks that will be gone.
  EXPECT_LT(sorted.lasting_mib, 1.1 * best_fit.lasting_mib);
}

}  // namespace
}  // namespace stalloc::runtime
