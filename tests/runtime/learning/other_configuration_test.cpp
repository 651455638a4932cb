// A run that starts from the kept plan of another configuration: a larger model, a larger batch, or the same for
// longer.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "model_test.h"
#include "runtime/learning/plan_cache.h"
#include "training_loop.h"

namespace stalloc::runtime {
namespace {

// Layers that are all made at the same call sites, as a loop over modules makes them, and a head behind them. The first
// step makes the optimizer's state.
class LayersLoop : public TrainingLoop {
 public:
  LayersLoop(model::Device& device, const DriverApi& api, const PlanShelf& shelf, std::uint64_t configuration,
             std::uint64_t layers, std::uint64_t percent)
      : TrainingLoop(device, api, {}, shelf, configuration), layers_(layers), percent_(percent) {
    for (std::uint64_t i = 0; i < layers_; ++i) Keep(kWeight, 500);
    Keep(kHead, 501);
  }

  void Step() {
    const std::uint64_t planned = memory().Counters().planned_requests;
    std::vector<Block> activations;
    std::vector<Block> gradients;
    for (std::uint64_t i = 0; i < layers_; ++i) {
      activations.push_back(Make(17 * kMebibyte * percent_ / 100, 510));
      const Block passing = Make(31 * kMebibyte * percent_ / 100, 511);
      activations.push_back(Make(9 * kMebibyte * percent_ / 100, 512));
      Free(passing);
    }
    gradients.push_back(Make(kHead, 520));
    for (std::uint64_t i = 0; i < layers_; ++i) {
      gradients.push_back(Make(kWeight, 521));
      for (int k = 0; k < 2; ++k) {
        Free(activations.back());
        activations.pop_back();
      }
    }
    if (steps_++ == 0) {
      for (std::uint64_t i = 0; i < 2 * layers_; ++i) Keep(kWeight, 530);
      for (std::uint64_t i = 0; i < 2; ++i) Keep(kHead, 531);
    }
    for (const Block& gradient : gradients) Free(gradient);
    EndIteration(planned);
  }

  std::uint64_t requests() const { return 4 * layers_ + 1; }
  double fragmentation() {
    const MemoryCounters now = memory().Counters();
    return 1 - static_cast<double>(now.peak_live_bytes) / static_cast<double>(now.peak_reserved_bytes);
  }

 private:
  static constexpr std::uint64_t kWeight = 23 * kMebibyte;
  static constexpr std::uint64_t kHead = 61 * kMebibyte;
  std::uint64_t layers_, percent_;
  int steps_ = 0;
};

class OtherConfiguration : public ModelTest {
 protected:
  struct Shape {
    std::uint64_t layers, percent;
  };

  OtherConfiguration() {
    std::string name = ::testing::TempDir() + "stalloc-other-configuration-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~OtherConfiguration() override { std::filesystem::remove_all(folder_); }

  // What the processes before held is gone, and what went wrong in them is said.
  std::unique_ptr<LayersLoop> Run(const std::string& cache, Shape shape, std::uint64_t configuration) {
    for (const std::string& error : device_.errors) ADD_FAILURE() << error;
    device_ = {};
    const PlanShelf shelf{.folder = folder_ + "/" + cache, .stem = "0123456789abcdef.A.", .cache_bytes = 1 << 20};
    return std::make_unique<LayersLoop>(device_, api_, shelf, configuration, shape.layers, shape.percent);
  }

  // So long that a plan is made, kept and followed.
  std::unique_ptr<LayersLoop> WholeRun(const std::string& cache, Shape shape, std::uint64_t configuration) {
    auto loop = Run(cache, shape, configuration);
    for (int i = 0; i < 60; ++i) loop->Step();
    EXPECT_EQ(loop->planned(), loop->requests());
    return loop;
  }

  std::string folder_;
};

// It holds no more than if nothing had been kept, and the run after it has a plan of its own.
TEST_F(OtherConfiguration, LeavesNothingBehindInARunThatDoesOtherwise) {
  constexpr Shape kShapes[] = {{4, 100}, {8, 100}, {16, 100}, {8, 50}, {8, 200}};
  constexpr double kPages = 0.005;  // two pages of the smallest of these
  int cache = 0;
  for (const Shape& first : kShapes) {
    for (const Shape& second : kShapes) {
      if (&first == &second) continue;
      const std::string name = std::to_string(++cache);
      const std::string said = std::to_string(second.layers) + " layers at " + std::to_string(second.percent) +
                               " % after " + std::to_string(first.layers) + " at " + std::to_string(first.percent);
      const double alone = WholeRun("alone" + name, second, 2)->fragmentation();
      WholeRun(name, first, 1);
      const auto loop = WholeRun(name, second, 2);
      EXPECT_LE(loop->fragmentation(), alone + kPages) << said;
      const auto third = Run(name, second, 2);
      third->Step();
      EXPECT_GE(third->planned() + 4, third->requests()) << said;
      for (int i = 0; i < 8; ++i) third->Step();
      EXPECT_LE(third->fragmentation(), alone + kPages) << said;
    }
  }
}

// What a run was told may matter to nothing that it allocates.
TEST_F(OtherConfiguration, IsFollowedByARunThatDoesTheSame) {
  WholeRun("cache", {8, 100}, 1);
  const auto loop = Run("cache", {8, 100}, 2);
  for (int i = 0; i < 8; ++i) {
    loop->Step();
    EXPECT_GE(loop->planned() + 4, loop->requests()) << "step " << i;
  }
  EXPECT_EQ(loop->status().kept, PlanStatus::Kept::kUsed);
}

}  // namespace
}  // namespace stalloc::runtime
