// Ranks of one program, as a launcher starts them: processes of their own, at the same time, over the simulated devices
// of one machine. Those that do the same share one kept plan, those that do not have their own.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "command.h"

namespace stalloc::tools {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class Ranks : public PreloadedTest {
 protected:
  struct Rank {
    Ended ended;
    json device;  // of its statistics
    double planned() const {
      const double requests = device.at("planned_requests").get<double>() + device.at("online_requests").get<double>();
      return device.at("planned_requests").get<double>() / requests;
    }
    std::string file() const { return device.at("plan").at("file").get<std::string>(); }
  };

  // One rank for each of `layers`, which trains so large a model; all at the same time.
  std::vector<Rank> Run(const std::vector<int>& layers, int steps, const std::vector<std::string>& options) {
    std::vector<Rank> ranks(layers.size());
    std::vector<std::thread> launched;
    for (std::size_t i = 0; i < layers.size(); ++i)
      launched.emplace_back([&, i] {
        const std::string rank = std::to_string(i);
        std::vector<std::string> words = {"run", "--stats=" + Path("stats." + rank + ".json"), "--log=info"};
        words.insert(words.end(), options.begin(), options.end());
        words.insert(words.end(), {"--", STALLOC_SIMTRAINER, std::to_string(steps), std::to_string(layers[i])});
        const std::string world = std::to_string(layers.size());
        ranks[i].ended = RunStalloc(words, {std::string("LD_LIBRARY_PATH=") + STALLOC_SIMCUDA_LIBRARIES, "RANK=" + rank,
                                            "SIMCUDA_DEVICES=" + (one_device_each_ ? "1" : world),
                                            "LOCAL_RANK=" + (one_device_each_ ? "0" : rank), "WORLD_SIZE=" + world});
      });
    for (std::thread& rank : launched) rank.join();
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      EXPECT_EQ(ranks[i].ended.exit_code, 0) << ranks[i].ended.errors;
      ranks[i].device = json::parse(Read(Path("stats." + std::to_string(i) + ".json"))).at("devices").at(0);
      EXPECT_EQ(ranks[i].device.at("ordinal"), one_device_each_ ? 0 : i) << "each has a device of its own";
    }
    return ranks;
  }

  std::vector<Rank> Cached(const std::vector<int>& layers, int steps) {
    return Run(layers, steps, {"--plan-cache=" + Path("cache")});
  }

  std::vector<std::string> Files(const std::string& folder = "cache") const {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(Path(folder))) files.push_back(entry.path().string());
    return files;
  }

  // Three steps are too few to learn anything in.
  void ExpectPlannedFromTheStart(const std::vector<Rank>& ranks) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      std::printf("rank %zu: %.2f %% planned, by %s\n", i, 100 * ranks[i].planned(), ranks[i].file().c_str());
      EXPECT_GE(ranks[i].planned(), 0.99) << ranks[i].ended.errors;
      EXPECT_LE(ranks[i].device.at("fragmentation"), 0.001);
    }
  }

  static constexpr int kSteps = 14;
  bool one_device_each_ = false;  // the launcher shows each rank its own device alone, as the first
};

TEST_F(Ranks, ThatDoTheSameShareOnePlan) {
  Cached({8, 8, 8, 8}, kSteps);
  ASSERT_EQ(Files().size(), 1u) << "one plan, and no remains";
  const auto state = fs::last_write_time(Files().front());

  const std::vector<Rank> second = Cached({8, 8, 8, 8}, 3);
  ExpectPlannedFromTheStart(second);
  int shared = 0;
  for (const Rank& rank : second) {
    EXPECT_EQ(rank.file(), Files().front());
    shared += rank.device.at("plan").at("shared").get<bool>() ? 1 : 0;
    EXPECT_NE(rank.ended.errors.find("made by rank"), std::string::npos) << rank.ended.errors;
  }
  EXPECT_EQ(shared, 3) << "one of them made it";
  EXPECT_EQ(Files().size(), 1u);
  EXPECT_GE(fs::last_write_time(Files().front()), state);

  const Ended shown = RunStalloc({"show", Files().front(), "--json"});
  EXPECT_EQ(shown.exit_code, 0) << shown.errors;
  const json plan = json::parse(shown.output);
  EXPECT_TRUE(plan.at("made_by_rank").is_number());
  EXPECT_NE(Files().front().find(plan.at("content").get<std::string>()), std::string::npos);

  // More of them, or one alone: the same plan does.
  ExpectPlannedFromTheStart(Cached({8, 8, 8, 8, 8, 8}, 3));
  ExpectPlannedFromTheStart(Cached({8}, 3));
  EXPECT_EQ(Files().size(), 1u);
}

// The stages of a pipeline, two of them alike.
TEST_F(Ranks, ThatDifferHaveTheirOwn) {
  const std::vector<int> layers = {10, 8, 8, 5};
  Cached(layers, kSteps);
  EXPECT_EQ(Files().size(), 3u);
  const std::vector<Rank> second = Cached(layers, 3);
  ExpectPlannedFromTheStart(second);
  EXPECT_EQ(second[1].file(), second[2].file());
  EXPECT_NE(second[0].file(), second[1].file());
  EXPECT_NE(second[3].file(), second[1].file());
  EXPECT_NE(second[0].file(), second[3].file());

  // The launcher deals them out otherwise.
  const std::vector<Rank> third = Cached({8, 5, 10, 8}, 3);
  ExpectPlannedFromTheStart(third);
  EXPECT_EQ(third[2].file(), second[0].file());
  EXPECT_EQ(third[1].file(), second[3].file());
  EXPECT_EQ(Files().size(), 3u);
}

// One does something else from the second run on: it makes a plan of its own and leaves the others theirs.
TEST_F(Ranks, OfWhichOneChangesLeaveTheRestTheirPlan) {
  Cached({8, 8, 8}, kSteps);
  ASSERT_EQ(Files().size(), 1u);
  const std::string shared = Files().front();
  const std::string content = Read(shared);
  const std::vector<Rank> changed = Cached({8, 4, 8}, kSteps + 6);
  EXPECT_EQ(Files().size(), 2u);
  EXPECT_EQ(Read(shared), content);
  EXPECT_NE(changed[1].file(), shared) << changed[1].ended.errors;
  const std::vector<Rank> third = Cached({8, 4, 8}, 3);
  ExpectPlannedFromTheStart(third);
  EXPECT_EQ(third[0].file(), shared);
  EXPECT_EQ(third[1].file(), changed[1].file());
}

// The last stage has one layer less. The first stage's plan has places for all of it, and memory for a layer that never
// comes: it is left at once, and from its second run on the stage has its own.
TEST_F(Ranks, ThatDoAPartOfWhatAnotherDoesMakeTheirOwn) {
  Cached({16}, kSteps);
  ASSERT_EQ(Files().size(), 1u);
  const std::string larger = Files().front();
  const std::vector<Rank> second = Cached({15}, kSteps + 6);
  EXPECT_LE(second[0].device.at("fragmentation"), 0.001) << second[0].ended.errors;
  EXPECT_GE(second[0].planned(), 0.5) << "by a plan of its own: " << second[0].ended.errors;
  ASSERT_EQ(Files().size(), 2u);
  EXPECT_NE(second[0].file(), larger);
  const std::vector<Rank> third = Cached({15}, 3);
  ExpectPlannedFromTheStart(third);
  EXPECT_EQ(third[0].file(), second[0].file());
  ExpectPlannedFromTheStart(Cached({16}, 3));
}

TEST_F(Ranks, HaveAFileEachWhereTheirNameIsInItsName) {
  fs::create_directory(Path("plans"));
  const std::vector<std::string> named = {"--plan=" + Path("plans") + "/%r.plan"};
  Run({6, 6}, kSteps, named);
  EXPECT_EQ(Files("plans").size(), 2u);
  EXPECT_TRUE(fs::exists(Path("plans/0.plan")));
  ExpectPlannedFromTheStart(Run({6, 6}, 3, named));
}

// One name for all of them, of which each takes its device for the first.
TEST_F(Ranks, ThatDifferKeepApartWhatTheUserNamedOnce) {
  one_device_each_ = true;
  fs::create_directory(Path("plans"));
  const std::vector<std::string> named = {"--plan=" + Path("plans") + "/my.plan"};
  const std::vector<int> layers = {8, 8, 4};
  Run(layers, kSteps, named);
  EXPECT_GE(Files("plans").size(), 2u);
  EXPECT_LE(Files("plans").size(), 3u) << "the first two share a file, unless the third was quicker";
  const std::vector<Rank> second = Run(layers, 3, named);
  ExpectPlannedFromTheStart(second);
  EXPECT_NE(second[2].file(), second[1].file());
}

}  // namespace
}  // namespace stalloc::tools
