// A run that starts from the kept plan of another configuration: a larger model, a larger batch, or the same for
// longer.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "model_test.h"
#include "planner/plan_file.h"
#include "runtime/learning/plan_cache.h"
#include "training_loop.h"

namespace stalloc::runtime {
namespace {

// Layers that are all made at the same call sites, as a loop over modules makes them, and a head behind them. The first
// step makes the optimizer's state.
class LayersLoop : public TrainingLoop {
 public:
  LayersLoop(model::Device& device, const DriverApi& api, const PlanShelf& shelf, std::uint64_t configuration,
             std::uint64_t layers, std::uint64_t percent, std::uint64_t width)
      : TrainingLoop(device, api, {}, shelf, configuration, kEmbedding * width / 100),
        layers_(layers),
        percent_(percent),
        weight_(kWeight * width / 100),
        head_(kHead * width / 100) {
    for (std::uint64_t i = 0; i < layers_; ++i) Keep(weight_, 500);
    Keep(head_, 501);
  }

  // Something is tried out before the first step, in blocks that no step makes, each a little larger than the last.
  void WarmUp(std::uint64_t blocks, std::uint64_t bytes) {
    for (std::uint64_t i = 0; i < blocks; ++i) Free(Make(bytes + i * 65'536, 540));
  }

  void Step() { Step(percent_); }

  // Of a batch so large, of which that of the weights does not speak.
  void Step(std::uint64_t percent) {
    const std::uint64_t planned = memory().Counters().planned_requests;
    std::vector<Block> activations;
    std::vector<Block> gradients;
    for (std::uint64_t i = 0; i < layers_; ++i) {
      activations.push_back(Make(17 * kMebibyte * percent / 100, 510));
      const Block passing = Make(31 * kMebibyte * percent / 100, 511);
      activations.push_back(Make(9 * kMebibyte * percent / 100, 512));
      Free(passing);
    }
    gradients.push_back(Make(head_, 520));
    for (std::uint64_t i = 0; i < layers_; ++i) {
      gradients.push_back(Make(weight_, 521));
      for (int k = 0; k < 2; ++k) {
        Free(activations.back());
        activations.pop_back();
      }
    }
    if (steps_++ == 0) {
      for (std::uint64_t i = 0; i < 2 * layers_; ++i) Keep(weight_, 530);
      for (std::uint64_t i = 0; i < 2; ++i) Keep(head_, 531);
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
  static constexpr std::uint64_t kEmbedding = 40 * kMebibyte;
  static constexpr std::uint64_t kWeight = 23 * kMebibyte;
  static constexpr std::uint64_t kHead = 61 * kMebibyte;
  std::uint64_t layers_, percent_, weight_, head_;
  int steps_ = 0;
};

class OtherConfiguration : public ModelTest {
 protected:
  struct Shape {
    std::uint64_t layers, percent, width = 100;
  };

  static constexpr double kPages = 0.005;  // two pages of the smallest of these programs

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
    return std::make_unique<LayersLoop>(device_, api_, shelf, configuration, shape.layers, shape.percent, shape.width);
  }

  // So long that a plan is made, kept and followed.
  std::unique_ptr<LayersLoop> WholeRun(const std::string& cache, Shape shape, std::uint64_t configuration) {
    auto loop = Run(cache, shape, configuration);
    for (int i = 0; i < 60; ++i) loop->Step();
    EXPECT_EQ(loop->planned(), loop->requests());
    return loop;
  }

  // The lengths to which batches are padded, of data in this order; the longest is `most`.
  static std::vector<std::uint64_t> Lengths(std::uint32_t seed, std::uint64_t most) {
    std::mt19937 random(seed);
    std::vector<std::uint64_t> lengths(60);
    for (std::uint64_t& length : lengths) length = most * (60 + random() % 41) / 100;
    lengths[5] = most;
    return lengths;
  }

  std::unique_ptr<LayersLoop> VaryingRun(const std::string& cache, const std::vector<std::uint64_t>& lengths,
                                         std::uint64_t configuration, std::uint64_t warm_up = 0) {
    auto loop = Run(cache, {8, 100}, configuration);
    loop->WarmUp(warm_up, 3 * kMebibyte);
    for (const std::uint64_t length : lengths) loop->Step(length);
    EXPECT_GE(loop->planned() + 4, loop->requests());
    return loop;
  }

  // From its first step on.
  void ExpectFollowed(LayersLoop& loop, const std::vector<std::uint64_t>& lengths) {
    for (std::size_t i = 0; i < 8; ++i) {
      loop.Step(lengths[i]);
      EXPECT_GE(loop.planned() + 4, loop.requests()) << "step " << i;
    }
    EXPECT_EQ(loop.status().kept, PlanStatus::Kept::kUsed);
  }

  std::string folder_;
};

// It holds no more than if nothing had been kept, and the run after it has a plan of its own.
TEST_F(OtherConfiguration, LeavesNothingBehindInARunThatDoesOtherwise) {
  constexpr Shape kShapes[] = {{4, 100}, {8, 100}, {16, 100}, {8, 50}, {8, 200}, {8, 100, 50}};
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

// Of the weights none is in the plan, and of the iteration most.
TEST_F(OtherConfiguration, IsLeftByAModelOfAnotherWidth) {
  WholeRun("cache", {8, 100}, 1);
  const auto loop = Run("cache", {8, 100, 50}, 2);
  loop->Step();
  EXPECT_EQ(loop->status().kept, PlanStatus::Kept::kRefused);
}

// What comes before the first iteration is in no plan, however much it is; but it came in the run before, too.
TEST_F(OtherConfiguration, IsFollowedByARunThatBeginsTheSame) {
  for (const std::uint64_t configuration : {1, 2}) {
    const auto loop = Run("cache", {8, 100}, configuration);
    loop->WarmUp(8, 401 * kMebibyte);
    for (int i = 0; i < 60; ++i) {
      loop->Step();
      EXPECT_TRUE(configuration == 1 || loop->planned() + 4 >= loop->requests()) << "step " << i;
    }
    EXPECT_EQ(loop->status().kept, configuration == 1 ? PlanStatus::Kept::kNone : PlanStatus::Kept::kUsed);
  }
}

// Before the first step, what makes no difference to it.
TEST_F(OtherConfiguration, IsFollowedThoughTheBeginningDiffersALittle) {
  WholeRun("cache", {8, 100}, 1);
  const auto loop = Run("cache", {8, 100}, 2);
  loop->WarmUp(1, 5 * kMebibyte);
  loop->Step();
  EXPECT_EQ(loop->status().kept, PlanStatus::Kept::kUsed);
  EXPECT_GT(loop->planned(), 0u);
}

TEST_F(OtherConfiguration, WhoseSizesScaleIsFollowedByARunThatBeginsTheSame) {
  const std::vector<std::uint64_t> lengths = Lengths(1, 100);
  VaryingRun("cache", lengths, 1);
  const auto loop = Run("cache", {8, 100}, 2);
  loop->WarmUp(3, kMebibyte);  // small ones do not count
  ExpectFollowed(*loop, lengths);
}

// Whatever comes behind that beginning: it has been this program's.
TEST_F(OtherConfiguration, WhoseSizesScaleIsFollowedFromTheEndOfItsBeginningOn) {
  const std::string file = VaryingRun("cache", Lengths(1, 100), 1)->status().file;
  planner::Plan plan = *planner::ReadPlanFile(file);
  ASSERT_GT(plan.beginning.size(), 20u);
  plan.beginning.resize(20);
  ASSERT_EQ(planner::WritePlanFile(file, plan), std::nullopt);
  const auto loop = Run("cache", {8, 100}, 2);
  ExpectFollowed(*loop, Lengths(1, 100));
}

// Requests of another batch size are all known to such a plan, by their call sites.
TEST_F(OtherConfiguration, WhoseSizesScaleLeavesNothingBehindInARunThatBeginsOtherwise) {
  for (const std::uint64_t percent : {50, 80, 200}) {
    for (const std::uint64_t warm_up : {0, 300}) {
      const std::string name = std::to_string(percent) + "." + std::to_string(warm_up);
      const std::vector<std::uint64_t> lengths = Lengths(1, percent);
      const double alone = VaryingRun("alone" + name, lengths, 2, warm_up)->fragmentation();
      VaryingRun(name, Lengths(1, 100), 1, warm_up);
      const auto loop = VaryingRun(name, lengths, 2, warm_up);
      EXPECT_EQ(loop->status().kept, PlanStatus::Kept::kRefused) << name;
      EXPECT_LE(loop->fragmentation(), alone + kPages) << name;
      const auto third = Run(name, {8, 100}, 2);
      third->WarmUp(warm_up, 3 * kMebibyte);
      for (std::size_t i = 0; i < 8; ++i) third->Step(lengths[i]);
      EXPECT_EQ(third->status().kept, PlanStatus::Kept::kUsed) << name;
      EXPECT_LE(third->fragmentation(), alone + kPages) << name;
    }
  }
}

// The same lengths in another order: plans that know each other's requests.
TEST_F(OtherConfiguration, WhoseBeginningItIsIsFoundAmongSeveral) {
  const std::vector<std::uint64_t> first = Lengths(1, 100);
  const std::vector<std::uint64_t> second = Lengths(2, 100);
  const std::string files[] = {VaryingRun("cache", first, 1)->status().file,
                               VaryingRun("cache", second, 2)->status().file};
  ASSERT_NE(files[0], files[1]);
  for (std::uint64_t configuration = 3; configuration < 7; ++configuration) {
    const auto loop = Run("cache", {8, 100}, configuration);
    ExpectFollowed(*loop, configuration % 2 == 1 ? first : second);
    EXPECT_EQ(loop->status().file, files[configuration % 2 == 1 ? 0 : 1]) << configuration;
  }
}

}  // namespace
}  // namespace stalloc::runtime
