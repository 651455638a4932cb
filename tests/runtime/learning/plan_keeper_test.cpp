// Several processes that keep plans in one cache, as far as files go: each is a PlanKeeper of its own.
#include "runtime/learning/plan_keeper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "planner/plan_file.h"
#include "runtime/learning/plan_content.h"

namespace stalloc::runtime {
namespace {

namespace fs = std::filesystem;
using Holds = PlanKeeper::Place::Holds;
using planner::Plan;

class PlanKeeperTest : public ::testing::Test {
 protected:
  PlanKeeperTest() {
    std::string name = ::testing::TempDir() + "stalloc-plan-keeper-XXXXXX";
    shelf_ = {.folder = ::mkdtemp(name.data()), .stem = "0123456789abcdef.A.", .cache_bytes = 1 << 20};
  }
  ~PlanKeeperTest() override { fs::remove_all(shelf_.folder); }

  PlanKeeper Process() const { return PlanKeeper(shelf_); }

  // One request, of a block that is there for so much of the iteration.
  static Plan Of(std::uint64_t size_bytes, std::int32_t rank = 0, planner::Time lifetime = 100) {
    Plan plan;
    plan.rank = rank;
    plan.period = 1000;
    plan.iteration.resize(1);
    plan.iteration[0].size_bytes = size_bytes;
    plan.iteration[0].end = lifetime;
    return plan;
  }

  // What a learner does with a plan that it has made. True if another's is shared.
  static bool Leave(PlanKeeper& keeper, const Plan& plan) {
    const PlanKeeper::Place place = keeper.PlaceFor(plan);
    if (place.holds == Holds::kOwn) return false;
    if (place.holds == Holds::kAnother) return keeper.Share(place), true;
    bool shared = false;
    const auto error = keeper.Keep(place, plan, &shared);
    EXPECT_FALSE(error) << error->Text();
    return shared;
  }

  std::vector<std::string> Files() const { return KeptPlans(shelf_); }
  std::string PathOf(const Plan& plan) const { return PlanPath(shelf_, ContentKey(plan)); }
  static int RankIn(const std::string& path) {
    const auto plan = planner::ReadPlanFile(path);
    return plan ? plan->rank : -2;
  }
  static void Age(const std::string& path) {
    const std::time_t then = std::time(nullptr) - 3600;
    const timespec times[] = {{then, 0}, {then, 0}};
    EXPECT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }

  PlanShelf shelf_;
};

TEST_F(PlanKeeperTest, RanksThatBehaveEquallyShareOneFile) {
  PlanKeeper first = Process(), second = Process(), third = Process();
  EXPECT_FALSE(Leave(first, Of(512, 0)));
  Age(PathOf(Of(512)));
  EXPECT_TRUE(Leave(second, Of(512, 1)));
  EXPECT_GT(StateOf(PathOf(Of(512)))->used_s, std::time(nullptr) - 1800) << "it was used again";
  EXPECT_FALSE(Leave(third, Of(1024, 2)));
  EXPECT_EQ(Files().size(), 2u);
  EXPECT_EQ(RankIn(PathOf(Of(512))), 0);
  EXPECT_EQ(RankIn(PathOf(Of(1024))), 2);
  // Made again later in the run, of the same: nothing is to be done.
  EXPECT_EQ(first.PlaceFor(Of(512)).holds, Holds::kOwn);
  EXPECT_EQ(second.PlaceFor(Of(512)).holds, Holds::kAnother);
}

// All find nothing there and write: one wins, whole, and the others know that it is not theirs.
TEST_F(PlanKeeperTest, OfManyThatWriteAtOnceOneWins) {
  constexpr int kRanks = 16;
  for (std::uint64_t round = 1; round <= 20; ++round) {
    std::atomic<int> ready{0};
    std::atomic<int> made{0};
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < kRanks; ++rank)
      ranks.emplace_back([&, rank] {
        PlanKeeper keeper = Process();
        const Plan plan = Of(round, rank);
        const PlanKeeper::Place place = keeper.PlaceFor(plan);
        EXPECT_EQ(place.holds, Holds::kNothing);
        ++ready;
        while (ready != kRanks) std::this_thread::yield();
        bool shared = false;
        const auto error = keeper.Keep(place, plan, &shared);
        EXPECT_FALSE(error) << error->Text();
        made += shared ? 0 : 1;
      });
    for (std::thread& rank : ranks) rank.join();
    EXPECT_EQ(made, 1);
    EXPECT_EQ(Files().size(), round);
    EXPECT_GE(RankIn(PathOf(Of(round))), 0) << "the file is not whole";
  }
  for (const auto& entry : fs::directory_iterator(shelf_.folder))
    EXPECT_EQ(entry.path().string().find(".tmp-"), std::string::npos) << entry.path();
}

// What repeats first may be a part of the iteration only: nobody needs the plan of that.
TEST_F(PlanKeeperTest, APlanThatNobodyElseUsesGivesWay) {
  PlanKeeper keeper = Process();
  Leave(keeper, Of(512));
  Leave(keeper, Of(1024));
  EXPECT_EQ(Files(), std::vector<std::string>{PathOf(Of(1024))});
}

TEST_F(PlanKeeperTest, APlanThatOthersUseStays) {
  PlanKeeper first = Process(), second = Process();
  Leave(first, Of(512));
  Age(PathOf(Of(512)));
  Leave(second, Of(512));
  Leave(first, Of(1024));
  EXPECT_EQ(Files().size(), 2u) << "the second still goes by it";
  Leave(second, Of(1024));
  EXPECT_EQ(Files().size(), 2u) << "it was the first that made it";

  PlanKeeper later = Process();
  later.StartFrom(PathOf(Of(512)));
  Leave(later, Of(2048));
  EXPECT_EQ(Files().size(), 3u) << "an earlier run made it";
}

// The plan did not do well, though the program does what it was made for: whoever started from it makes it anew.
// What did no good goes, but not under others who use it, and not what an earlier run has left.
TEST_F(PlanKeeperTest, WhatDidNoGoodIsWithdrawn) {
  PlanKeeper alone = Process();
  Leave(alone, Of(512));
  alone.Withdraw();
  EXPECT_TRUE(Files().empty());

  PlanKeeper maker = Process(), other = Process();
  Leave(maker, Of(512));
  Age(PathOf(Of(512)));
  EXPECT_TRUE(Leave(other, Of(512, 1)));
  maker.Withdraw();
  other.Withdraw();
  EXPECT_EQ(Files().size(), 1u);

  shelf_.file = shelf_.folder + "/named.plan";
  shelf_.folder.clear();
  PlanKeeper named = Process();
  Leave(named, Of(512));
  EXPECT_TRUE(fs::exists(shelf_.file));
  named.Withdraw();
  EXPECT_FALSE(fs::exists(shelf_.file));
  shelf_.folder = fs::path(shelf_.file).parent_path();
}

TEST_F(PlanKeeperTest, WhatAProcessStartedFromIsReplaced) {
  PlanKeeper earlier = Process();
  Leave(earlier, Of(512, 0));
  PlanKeeper keeper = Process();
  keeper.StartFrom(PathOf(Of(512)));
  EXPECT_FALSE(Leave(keeper, Of(512, 7)));
  EXPECT_EQ(RankIn(PathOf(Of(512))), 7);
  EXPECT_EQ(Files().size(), 1u);
  Leave(keeper, Of(1024));
  EXPECT_EQ(Files().size(), 2u) << "it did not make the first of them, but made it anew";
}

TEST_F(PlanKeeperTest, WhatOnlyLooksTheSameHasAFileOfItsOwn) {
  PlanKeeper first = Process(), second = Process();
  Leave(first, Of(512, 0, 100));
  EXPECT_FALSE(Leave(second, Of(512, 1, 900)));
  EXPECT_EQ(Files().size(), 2u);
  PlanKeeper third = Process();
  third.StartFrom(PathOf(Of(512)));
  EXPECT_TRUE(Leave(third, Of(512, 2, 890)));
  EXPECT_EQ(Files().size(), 2u);
  EXPECT_EQ(RankIn(PathOf(Of(512))), 0) << "the others still use it";
}

TEST_F(PlanKeeperTest, ADamagedFileIsReplacedAndAMissingOneWrittenAgain) {
  PlanKeeper keeper = Process();
  std::ofstream(PathOf(Of(512))) << "stallocP and nothing behind it";
  EXPECT_FALSE(Leave(keeper, Of(512, 3)));
  EXPECT_EQ(RankIn(PathOf(Of(512))), 3);
  fs::remove(PathOf(Of(512)));
  EXPECT_FALSE(Leave(keeper, Of(512, 4)));
  EXPECT_EQ(RankIn(PathOf(Of(512))), 4);
}

TEST_F(PlanKeeperTest, AFileThatTheUserNamedIsAlwaysWritten) {
  PlanKeeper keeper({.file = shelf_.folder + "/my.plan"});
  EXPECT_FALSE(Leave(keeper, Of(512, 1)));
  EXPECT_FALSE(Leave(keeper, Of(1024, 2)));
  EXPECT_EQ(RankIn(shelf_.folder + "/my.plan"), 2);
  EXPECT_TRUE(Files().empty());
}

// A name without %r, under a launcher that shows each rank one device.
TEST_F(PlanKeeperTest, RanksThatDifferDoNotOverwriteTheFileThatTheUserNamed) {
  const std::string file = shelf_.folder + "/my.plan";
  const auto shelf_of = [&](int rank) {
    return PlanShelf{.file = file, .own_file = file + ".rank" + std::to_string(rank)};
  };
  PlanKeeper zero(shelf_of(0)), one(shelf_of(1)), two(shelf_of(2));
  EXPECT_FALSE(Leave(zero, Of(512, 0)));
  EXPECT_TRUE(Leave(one, Of(512, 1))) << "it does the same";
  EXPECT_FALSE(Leave(two, Of(1024, 2)));
  EXPECT_EQ(RankIn(file), 0);
  EXPECT_EQ(RankIn(file + ".rank2"), 2);
  EXPECT_EQ(KeptPlans(shelf_of(1)), std::vector<std::string>{file});
  EXPECT_EQ(KeptPlans(shelf_of(2)), (std::vector<std::string>{file + ".rank2", file}));
  // The next run, in which the first two have changed.
  PlanKeeper again(shelf_of(0)), other(shelf_of(1));
  again.StartFrom(file);
  other.StartFrom(file);
  EXPECT_FALSE(Leave(other, Of(2048, 1)));
  EXPECT_EQ(RankIn(file), 0);
  EXPECT_FALSE(Leave(again, Of(4096, 0)));
  EXPECT_EQ(RankIn(file), 0);
  EXPECT_EQ(RankIn(file + ".rank1"), 1);
  EXPECT_EQ(planner::ReadPlanFile(file)->iteration[0].size_bytes, 4096u) << "it made this file";
  // A plan that did not do well, though it is of the same, is made anew for all.
  PlanKeeper third(shelf_of(3));
  third.StartFrom(file);
  EXPECT_FALSE(Leave(third, Of(4096, 3)));
  EXPECT_EQ(RankIn(file), 3);
}

TEST_F(PlanKeeperTest, RanksThatWriteTheNamedFileAtOnceLoseNothing) {
  constexpr int kRanks = 12;
  for (std::uint64_t round = 0; round < 20; ++round) {
    const std::string file = shelf_.folder + "/" + std::to_string(round) + ".plan";
    std::atomic<int> ready{0};
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < kRanks; ++rank)
      ranks.emplace_back([&, rank] {
        PlanKeeper keeper({.file = file, .own_file = file + ".rank" + std::to_string(rank)});
        const Plan plan = Of(static_cast<std::uint64_t>(512) << rank % 3, rank);  // of three kinds
        const PlanKeeper::Place place = keeper.PlaceFor(plan);
        ++ready;
        while (ready != kRanks) std::this_thread::yield();
        bool shared = false;
        const auto error = keeper.Keep(place, plan, &shared);
        EXPECT_FALSE(error) << error->Text();
      });
    for (std::thread& rank : ranks) rank.join();
    const auto made = planner::ReadPlanFile(file);
    ASSERT_TRUE(made) << made.error().Text();
    for (int rank = 0; rank < kRanks; ++rank) {
      const bool alike = rank % 3 == made->rank % 3;
      EXPECT_EQ(RankIn(file + ".rank" + std::to_string(rank)), alike ? -2 : rank);
    }
  }
}

TEST_F(PlanKeeperTest, AFolderThatCannotBeMadeIsSaidByItsName) {
  std::ofstream(shelf_.folder + "/file") << "in the way";
  PlanKeeper keeper({.folder = shelf_.folder + "/file/cache", .stem = shelf_.stem, .cache_bytes = 1});
  bool shared = false;
  const auto error = keeper.Keep(keeper.PlaceFor(Of(512)), Of(512), &shared);
  ASSERT_TRUE(error);
  EXPECT_NE(error->Text().find("/file/cache/"), std::string::npos) << error->Text();
  EXPECT_FALSE(shared);
}

}  // namespace
}  // namespace stalloc::runtime
