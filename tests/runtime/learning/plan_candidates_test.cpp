// Several kept plans, of ranks or runs that differ: a process finds its own among them by its first requests.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>

#include "model_test.h"
#include "runtime/learning/plan_cache.h"
#include "training_loop.h"

namespace stalloc::runtime {
namespace {

namespace fs = std::filesystem;

class PlanCandidates : public ModelTest {
 protected:
  PlanCandidates() {
    std::string name = ::testing::TempDir() + "stalloc-plan-candidates-XXXXXX";
    shelf_ = {.folder = ::mkdtemp(name.data()), .stem = "0123456789abcdef.A.", .cache_bytes = 1 << 20};
  }
  ~PlanCandidates() override { fs::remove_all(shelf_.folder); }

  // What the processes before held is gone, and what went wrong in them is said.
  std::unique_ptr<TrainingLoop> Run() {
    for (const std::string& error : device_.errors) ADD_FAILURE() << error;
    device_ = {};
    return std::make_unique<TrainingLoop>(device_, api_, MemoryPolicy{}, shelf_);
  }

  // A run with so large a batch, long enough that a plan is kept. Returns the plan's file.
  std::string FirstRun(std::uint64_t percent) {
    const auto loop = Run();
    for (int i = 0; i < 60; ++i) loop->Iterate(percent);
    EXPECT_EQ(loop->planned(), loop->kRequests);
    EXPECT_EQ(loop->status().kept, PlanStatus::Kept::kNone);
    return loop->status().file;
  }

  // As if it had been used so long ago.
  static void Age(const std::string& path, std::time_t seconds) {
    const std::time_t then = std::time(nullptr) - seconds;
    const timespec times[] = {{then, 0}, {then, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }

  PlanShelf shelf_;
};

// All but those by which an iteration is recognised where a matcher begins to follow it.
constexpr std::uint64_t kNearlyAll = TrainingLoop::kRequests - 4;

TEST_F(PlanCandidates, EachFindsItsOwnWhicheverWasUsedLast) {
  const std::uint64_t percents[] = {60, 100, 140};
  std::string files[3];
  for (int i = 0; i < 3; ++i) {
    const PlanShelf all = shelf_;
    shelf_.folder += "/" + std::to_string(i);  // the first runs know nothing of each other
    files[i] = all.folder + "/" + fs::path(FirstRun(percents[i])).filename().string();
    fs::rename(shelf_.folder + "/" + fs::path(files[i]).filename().string(), files[i]);
    shelf_ = all;
  }
  for (int newest = 0; newest < 3; ++newest) {
    for (int i = 0; i < 3; ++i) {
      for (int k = 0; k < 3; ++k) Age(files[k], k == newest ? 5000 : 10000 + k);
      const std::string said = std::to_string(percents[i]) + " %, used last " + std::to_string(percents[newest]) + " %";
      const auto loop = Run();
      loop->Iterate(percents[i]);
      EXPECT_GE(loop->planned(), kNearlyAll) << said;
      for (int n = 0; n < 6; ++n) {
        loop->Iterate(percents[i]);
        EXPECT_EQ(loop->planned(), loop->kRequests) << said;
      }
      EXPECT_EQ(loop->status().kept, PlanStatus::Kept::kUsed);
      EXPECT_EQ(loop->status().file, files[i]) << said;
      for (int k = 0; k < 3; ++k)
        EXPECT_EQ(StateOf(files[k])->used_s > std::time(nullptr) - 1000, k == i) << said << ": only its own was used";
    }
  }
  EXPECT_EQ(KeptPlans(shelf_).size(), 3u) << "nobody made another";
}

// A changed program leaves the plan to those that still do what it is for, and makes its own.
TEST_F(PlanCandidates, WhoHasChangedHarmsNobody) {
  const std::string file = FirstRun(100);
  const auto before = fs::file_size(file);
  Age(file, 5000);
  const auto state = StateOf(file);
  const auto loop = Run();
  for (int i = 0; i < 80; ++i) loop->Iterate(60);
  EXPECT_EQ(loop->planned(), loop->kRequests);
  EXPECT_NE(loop->status().file, file);
  EXPECT_TRUE(StateOf(file) == state) << "untouched";
  EXPECT_EQ(fs::file_size(file), before);
  EXPECT_EQ(KeptPlans(shelf_).size(), 2u);
}

// Nothing of what it does is known: it is as if nothing had been kept.
TEST_F(PlanCandidates, PlansOfWhatItNeverDoesAreGivenUpSoon) {
  FirstRun(100);
  const auto loop = Run();
  loop->Repeat(1000);
  EXPECT_EQ(loop->status().kept, PlanStatus::Kept::kRefused);
  EXPECT_EQ(loop->memory().in_force().requests, 0u);
  for (int i = 0; i < 60; ++i) loop->Iterate(60);
  EXPECT_EQ(loop->planned(), loop->kRequests);
}

// The host has no memory for learning while it is open which plan is this run's: the one in force stays, nobody asks
// the others any more, and whoever has it step, as a thread of another context may, does no harm.
TEST_F(PlanCandidates, WhoGivesUpLearningEndsTheChoice) {
  FirstRun(100);
  const PlanShelf all = shelf_;
  shelf_.folder += "/other";
  const std::string other = FirstRun(60);
  fs::rename(other, all.folder + "/" + fs::path(other).filename().string());
  shelf_ = all;
  const auto loop = Run();
  ASSERT_TRUE(loop->memory().choice());
  loop->GiveUpLearning();
  EXPECT_FALSE(loop->memory().choice());
  for (int i = 0; i < 10; ++i) loop->Iterate(100);
  EXPECT_FALSE(loop->memory().observing());
  EXPECT_NE(loop->memory().in_force().requests, 0u);
  EXPECT_EQ(loop->status().reason, PlanStatus::Reason::kNoHostMemory);
}

}  // namespace
}  // namespace stalloc::runtime
