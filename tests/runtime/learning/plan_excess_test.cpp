// No plan makes a program hold more than it would without: such a plan is neither made, kept nor started from.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "model_test.h"
#include "planner/plan_file.h"
#include "runtime/learning/plan_cache.h"
#include "training_loop.h"

namespace stalloc::runtime {
namespace {

namespace fs = std::filesystem;

class PlanExcess : public ModelTest {
 protected:
  PlanExcess() {
    std::string name = ::testing::TempDir() + "stalloc-plan-excess-XXXXXX";
    shelf_ = {.folder = ::mkdtemp(name.data()), .stem = "0123456789abcdef.A.", .cache_bytes = 1 << 20};
  }
  ~PlanExcess() override { fs::remove_all(shelf_.folder); }

  PlanShelf shelf_;
};

// Two streams take turns, and the program orders them nowhere: a block lives at a time. A plan does not wait so often,
// and would give each stream memory of its own.
class TwoStreams {
 public:
  TwoStreams(model::Device& device, const DriverApi& api, const PlanShelf& shelf)
      : device_(device), memory_(api, 0, 0, MemoryPolicy{}) {
    EXPECT_EQ(memory_.Initialise(), CUDA_SUCCESS);
    Learner::Options options;
    options.kept_deadline_ms = 40;
    options.shelf = shelf;
    learner_.emplace(memory_, options);
    learner_->StartFromKept();
    Make(200 * kMebibyte, 0, 1);
  }

  void Iterate() {
    for (int i = 0; i < 120; ++i) {
      const int stream = i % 2;
      const CUdeviceptr address = Make(kBlockBytes, stream, 100 + static_cast<std::uint64_t>(i));
      EXPECT_EQ(memory_.Free(address, Stream(stream)), CUDA_SUCCESS);
    }
    device_.ExecuteAll();
    learner_->Step();
  }

  // One of them alone, with less to do.
  void IterateOnOneStream() {
    for (int i = 0; i < 40; ++i) {
      const CUdeviceptr address =
          Make((1 + static_cast<std::uint64_t>(i)) * kMebibyte, 0, 500 + static_cast<std::uint64_t>(i));
      EXPECT_EQ(memory_.Free(address, Stream(0)), CUDA_SUCCESS);
    }
    device_.ExecuteAll();
    learner_->Step();
  }

  PlanStatus status() const { return learner_->status(); }
  MemoryCounters counters() const { return memory_.Counters(); }
  static constexpr std::uint64_t kBlockBytes = 100 * kMebibyte;

 private:
  static DeviceMemory::Order Stream(int which) {
    return {reinterpret_cast<CUstream>(static_cast<std::uintptr_t>(16 + 16 * which)), nullptr};
  }
  CUdeviceptr Make(std::uint64_t bytes, int stream, std::uint64_t call_site) {
    const auto made = memory_.Allocate(bytes, Stream(stream), call_site);
    EXPECT_EQ(made.result, CUDA_SUCCESS);
    device_.Touch(Stream(stream).stream, made.address, bytes, made.number);
    return made.address;
  }

  model::Device& device_;
  DeviceMemory memory_;
  std::optional<Learner> learner_;
};

TEST_F(PlanExcess, StreamsThatTakeTurnsGetNoPlanWithMemoryForEach) {
  for (int run = 0; run < 2; ++run) {
    device_ = {};
    TwoStreams program(device_, api_, shelf_);
    for (int i = 0; i < 60; ++i) program.Iterate();
    const PlanStatus status = program.status();
    EXPECT_EQ(status.not_kept, "it has 200 pages where 150 live at the peak") << "run " << run;
    EXPECT_EQ(status.file, "");
    EXPECT_LE(program.counters().peak_reserved_bytes, program.counters().peak_live_bytes + 2 * kPageBytes);
    EXPECT_GT(program.counters().planned_requests, 0u) << "where they were served they may be";
  }
  EXPECT_TRUE(KeptPlans(shelf_).empty());
}

// Another plan comes after it, of shorter iterations, which nobody wants to keep.
TEST_F(PlanExcess, WhyAPlanIsNotKeptIsSaidOfTheNewestAlone) {
  TwoStreams program(device_, api_, shelf_);
  for (int i = 0; i < 60; ++i) program.Iterate();
  ASSERT_NE(program.status().not_kept, "");
  for (int i = 0; i < 400 && program.status().requests != 40; ++i) program.IterateOnOneStream();
  ASSERT_EQ(program.status().requests, 40u) << "a plan of the shorter iteration";
  EXPECT_EQ(program.status().not_kept, "");
}

// A file of a version that did not look, say. The program's own takes its place.
TEST_F(PlanExcess, AKeptPlanWithTooManyPagesIsLeftAsideAndReplaced) {
  const auto run = [&] {
    device_ = {};
    TrainingLoop loop(device_, api_, {}, shelf_);
    const PlanStatus::Kept kept = loop.status().kept;
    for (int i = 0; i < 60; ++i) loop.Iterate();
    EXPECT_EQ(loop.status().not_kept, "");
    return std::pair(kept, loop.status().file);
  };
  const auto [none, file] = run();
  ASSERT_EQ(none, PlanStatus::Kept::kNone);
  auto plan = planner::ReadPlanFile(file);
  ASSERT_TRUE(plan) << plan.error().Text();
  const std::uint64_t pages = plan->page_count;
  plan->page_count += pages / 100 + 2;
  ASSERT_EQ(planner::WritePlanFile(file, *plan, true), std::nullopt);

  EXPECT_EQ(run(), std::pair(PlanStatus::Kept::kRefused, file));
  const auto replaced = planner::ReadPlanFile(file);
  ASSERT_TRUE(replaced) << replaced.error().Text();
  EXPECT_EQ(replaced->page_count, pages);
  EXPECT_EQ(run(), std::pair(PlanStatus::Kept::kUsed, file));
}

}  // namespace
}  // namespace stalloc::runtime
