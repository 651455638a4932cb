#include "runtime/learning/plan_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "planner/plan_file.h"
#include "runtime/base/settings.h"

namespace stalloc::runtime {
namespace {

namespace fs = std::filesystem;

class PlanCacheTest : public ::testing::Test {
 protected:
  PlanCacheTest() {
    std::string name = ::testing::TempDir() + "stalloc-plan-cache-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~PlanCacheTest() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  static std::string PlanName(int n) { return "00000000000000" + std::to_string(10 + n) + ".Device.plan"; }

  // A file of 1000 bytes with a plan's beginning, used so long ago.
  std::string Plan(const std::string& name, std::time_t age_seconds) const {
    std::string content(planner::kPlanFileMagic, sizeof planner::kPlanFileMagic);
    content.resize(1000, 'x');
    return File(name, content, age_seconds);
  }
  std::string File(const std::string& name, const std::string& content, std::time_t age_seconds) const {
    std::ofstream(Path(name), std::ios::binary) << content;
    const std::time_t then = std::time(nullptr) - age_seconds;
    const timespec times[] = {{then, 0}, {then, 0}};
    EXPECT_EQ(::utimensat(AT_FDCWD, Path(name).c_str(), times, 0), 0);
    return Path(name);
  }

  std::string folder_;
};

TEST_F(PlanCacheTest, WhatWasUsedLeastRecentlyGoesFirst) {
  for (int n = 0; n < 6; ++n) Plan(PlanName(n), 10000 - 1000 * n);
  NotePlanUsed(Path(PlanName(0)));  // the oldest, but used now
  EXPECT_EQ(TrimPlanCache(folder_, 4000), 2000u);
  for (int n = 0; n < 6; ++n) EXPECT_EQ(fs::exists(Path(PlanName(n))), n != 1 && n != 2) << n;
  EXPECT_EQ(TrimPlanCache(folder_, 4000), 0u);
}

TEST_F(PlanCacheTest, WhatIsInUseStaysHoweverLittleRoomThereIs) {
  for (int n = 0; n < 4; ++n) Plan(PlanName(n), n < 2 ? 30 : 100000);
  EXPECT_EQ(TrimPlanCache(folder_, 1), 2000u);
  EXPECT_TRUE(fs::exists(Path(PlanName(0))));
  EXPECT_TRUE(fs::exists(Path(PlanName(1))));
}

TEST_F(PlanCacheTest, WhatIsNotOursIsNeverTouched) {
  const std::time_t old = 30 * 24 * 3600;
  const std::string plan_content = std::string(planner::kPlanFileMagic, 8) + std::string(5000, 'x');
  const std::vector<std::string> foreign = {
      File("notes.txt", plan_content, old),
      File("my.plan", plan_content, old),
      File("0123456789abcdef.Device.planned", plan_content, old),
      File("0123456789ABCDEF.Device.plan", plan_content, old),
      File("0123456789abcdef.Device.plan", "a text of somebody's", old),
      File("1123456789abcdef.Device.plan.device1", "", old),
      File("0123456789abcdef.plan~", plan_content, old),
  };
  fs::create_directory(Path("2123456789abcdef.Device.plan"));
  fs::create_symlink(foreign[0], Path("3123456789abcdef.Device.plan"));
  Plan("4123456789abcdef.Device.plan.device12", old);
  EXPECT_EQ(TrimPlanCache(folder_, 1), 1000u);
  for (const std::string& path : foreign) EXPECT_TRUE(fs::exists(path)) << path;
  EXPECT_TRUE(fs::exists(Path("2123456789abcdef.Device.plan")));
  EXPECT_TRUE(fs::is_symlink(Path("3123456789abcdef.Device.plan")));
}

TEST_F(PlanCacheTest, RemainsOfKilledWritersGoAfterADay) {
  File(PlanName(0) + ".tmp-123-0", "half", 2 * 24 * 3600);
  File(PlanName(1) + ".tmp-124-0", "half", 3600);
  EXPECT_EQ(TrimPlanCache(folder_, 1000000), 0u);
  EXPECT_FALSE(fs::exists(Path(PlanName(0) + ".tmp-123-0")));
  EXPECT_TRUE(fs::exists(Path(PlanName(1) + ".tmp-124-0")));
}

TEST_F(PlanCacheTest, KeepingAPlanMakesTheFolder) {
  const std::string path = Path("new/folder/") + PlanName(0);
  const auto error = KeepPlan(path, {}, 1000000);
  ASSERT_FALSE(error) << error->Text();
  EXPECT_TRUE(planner::ReadPlanFile(path).ok());
  struct stat status {};
  ASSERT_EQ(::stat(Path("new").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  EXPECT_TRUE(KeepPlan(Path("elsewhere/") + PlanName(0), {}, 0)) << "only the cache's folder is made";
}

TEST_F(PlanCacheTest, PlansOfAProgramAreFoundTheLastUsedFirst) {
  const PlanShelf shelf{.folder = folder_, .stem = "0123456789abcdef.Device.", .cache_bytes = 1};
  const auto name = [](int n) { return "0123456789abcdef.Device.00000000000000" + std::to_string(10 + n) + ".plan"; };
  for (int n = 0; n < 4; ++n) Plan(name(n), 1000 * (n % 2 == 0 ? n + 1 : 9 - n));
  Plan("0123456789abcdef.Device.plan", 0);                         // of an earlier version: it had one a device
  Plan("0123456789abcdef.Device-2.0000000000000010.plan", 0);      // for another device
  Plan("1123456789abcdef.Device.0000000000000010.plan", 0);        // another program's
  Plan("0123456789abcdef.Device.0000000000000010.plan.tmp-1", 0);  // being written
  fs::create_directory(Path(name(7)));
  EXPECT_EQ(KeptPlans(shelf), (std::vector<std::string>{Path(name(0)), Path(name(2)), Path(name(3)), Path(name(1))}));
  NotePlanUsed(Path(name(1)));
  EXPECT_EQ(KeptPlans(shelf).front(), Path(name(1)));
}

// Programs that never do the same twice leave a plan each run.
TEST_F(PlanCacheTest, AProgramHasOnlySoManyPlans) {
  const PlanShelf shelf{.folder = folder_, .stem = "0123456789abcdef.Device.", .cache_bytes = 1};
  constexpr int kMore = 5;
  for (int n = 0; n < static_cast<int>(kMostPlansOfAProgram) + kMore; ++n) {
    const std::string path = PlanPath(shelf, static_cast<std::uint64_t>(n) + 1);
    Plan(path.substr(folder_.size() + 1), 100000 - 100 * n);
  }
  for (int n = 0; n < 3; ++n) Plan(PlanName(n), 1000000);  // older, but each is a program's only one
  EXPECT_EQ(TrimPlanCache(folder_, 1 << 20), 1000u * kMore);
  EXPECT_EQ(KeptPlans(shelf).size(), kMostPlansOfAProgram);
  EXPECT_FALSE(fs::exists(PlanPath(shelf, kMore)));
  EXPECT_TRUE(fs::exists(PlanPath(shelf, kMore + 1)));
  EXPECT_TRUE(fs::exists(Path(PlanName(0))));
}

// In containers every process may have the same number, and the remains of the one before lie there.
TEST_F(PlanCacheTest, RemainsAreInNobodysWay) {
  const std::string path = Path(PlanName(0));
  for (int n = 0; n < 50; ++n)
    File(PlanName(0) + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(n), "", 60);
  const auto error = KeepPlan(path, {}, 1000000);
  EXPECT_FALSE(error) << error->Text();
}

// Two threads in the place of two processes: one writes the same old plan again and again, the other trims. A plan that
// was just written is always there.
TEST_F(PlanCacheTest, WhatAnotherHasJustWrittenStays) {
  const std::string path = Plan(PlanName(0), 100000);
  std::atomic<bool> stop{false};
  std::thread trimmer([&] {
    while (!stop) TrimPlanCache(folder_, 1);
  });
  int missing = 0;
  for (int round = 0; round < 300; ++round) {
    Plan("aside", 100000);
    fs::rename(Path("aside"), path);      // old: may be deleted
    ASSERT_FALSE(KeepPlan(path, {}, 0));  // new: may not
    bool there = false;
    // Out of the way for a moment, while it is looked at: on a busy machine until the other thread runs again.
    const auto given_up = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!(there = fs::exists(path)) && std::chrono::steady_clock::now() < given_up) std::this_thread::yield();
    missing += there ? 0 : 1;
  }
  stop = true;
  trimmer.join();
  EXPECT_EQ(missing, 0);
}

TEST(PlanShelf, IsTheFileNamedOrOneFolderForAllThatAProgramDoes) {
  Settings settings;
  settings.plan_cache.directory = "/cache";
  const PlanShelf shelf = ShelfOf(settings, 0xab, "A b", 3);
  EXPECT_EQ(PlanPath(shelf, 0xc0), "/cache/00000000000000ab.A-b.00000000000000c0.plan");
  EXPECT_EQ(PlanPath(ShelfOf(settings, 0xab, "A b", 0), 0xc0), PlanPath(shelf, 0xc0)) << "whichever device it is";
  EXPECT_TRUE(ShelfOf(settings, 0, "A b", 0).empty());
  settings.plan.text = "/my.plan";
  EXPECT_EQ(PlanPath(ShelfOf(settings, 0xab, "A b", 0), 1), "/my.plan");
  EXPECT_EQ(PlanPath(ShelfOf(settings, 0xab, "A b", 1), 2), "/my.plan.device1");
}

}  // namespace
}  // namespace stalloc::runtime
