#include "runtime/base/settings.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/process_identity.h"

namespace stalloc::runtime {
namespace {

struct Loaded {
  Settings settings;
  std::vector<std::string> warnings;
};

Loaded Load(const std::vector<std::string>& environment) {
  std::vector<const char*> block;
  for (const std::string& entry : environment) block.push_back(entry.c_str());
  block.push_back(nullptr);
  Loaded loaded;
  loaded.settings = LoadSettings(block.data(), &loaded.warnings);
  return loaded;
}

// What stands in a warning that must name both the variable and its value.
void ExpectOneWarning(const Loaded& loaded, const std::string& name, const std::string& value) {
  ASSERT_EQ(loaded.warnings.size(), 1U);
  EXPECT_NE(loaded.warnings[0].find(name), std::string::npos) << loaded.warnings[0];
  EXPECT_NE(loaded.warnings[0].find(value), std::string::npos) << loaded.warnings[0];
  EXPECT_EQ(loaded.warnings[0].find('\n'), std::string::npos) << loaded.warnings[0];
}

TEST(Settings, DefaultsWithoutAnyVariable) {
  const Loaded loaded = Load({"PATH=/bin", "HOME=/home/someone"});
  EXPECT_TRUE(loaded.warnings.empty());
  EXPECT_FALSE(loaded.settings.disable);
  EXPECT_TRUE(loaded.settings.planning);
  EXPECT_TRUE(loaded.settings.summary);
  EXPECT_TRUE(loaded.settings.trace.empty());
  EXPECT_EQ(loaded.settings.log, LogLevel::kWarn);
  EXPECT_EQ(loaded.settings.serve, Serve::kAll);
  EXPECT_EQ(loaded.settings.ipc, Ipc::kAuto);
  EXPECT_EQ(loaded.settings.memory_limit.BytesOn(std::uint64_t{1} << 40), std::nullopt);
  EXPECT_EQ(loaded.settings.plan_cache, (PlanCache{true, "/home/someone/.cache/stalloc"}));
}

TEST(Settings, SizesAndSignals) {
  Loaded loaded = Load({"STALLOC_PLAN_CACHE_SIZE=1.5GiB", "STALLOC_STATS_SIGNAL=sigusr2"});
  EXPECT_TRUE(loaded.warnings.empty());
  EXPECT_EQ(loaded.settings.plan_cache_size.bytes, std::uint64_t{3} << 29);
  EXPECT_EQ(loaded.settings.stats_signal, StatsSignal::kUser2);
  loaded = Load({"STALLOC_PLAN_CACHE_SIZE=40%"});
  ExpectOneWarning(loaded, "STALLOC_PLAN_CACHE_SIZE", "40%");
  EXPECT_NE(loaded.warnings[0].find("256MiB"), std::string::npos) << loaded.warnings[0];
  ExpectOneWarning(Load({"STALLOC_STATS_SIGNAL=SIGKILL"}), "STALLOC_STATS_SIGNAL", "SIGKILL");
}

TEST(Settings, ANullBlockIsAnEmptyOne) {
  std::vector<std::string> warnings;
  EXPECT_TRUE(LoadSettings(nullptr, &warnings).planning);
  EXPECT_TRUE(warnings.empty());
}

TEST(Settings, EachTypeIsRead) {
  const Loaded loaded =
      Load({"STALLOC_DISABLE=yes", "STALLOC_TRACE=/t/%p.trace", "STALLOC_LOG=Debug", "STALLOC_GROWTH=1.01",
            "STALLOC_STACK_DEPTH=7", "STALLOC_IPC=on", "STALLOC_SERVE=async", "STALLOC_SUMMARY=0"});
  EXPECT_TRUE(loaded.warnings.empty()) << loaded.warnings[0];
  EXPECT_TRUE(loaded.settings.disable);
  EXPECT_FALSE(loaded.settings.summary);
  EXPECT_EQ(loaded.settings.trace.text, "/t/%p.trace");
  EXPECT_EQ(loaded.settings.log, LogLevel::kDebug);
  EXPECT_EQ(loaded.settings.growth, Growth{1.01});
  EXPECT_EQ(loaded.settings.stack_depth, 7);
  EXPECT_EQ(loaded.settings.ipc, Ipc::kOn);
  EXPECT_EQ(loaded.settings.serve, Serve::kAsync);
}

TEST(Settings, GrowthIsANumberOrAutomatic) {
  EXPECT_EQ(Load({"STALLOC_GROWTH=auto"}).settings.growth, Growth{});
  EXPECT_EQ(Load({"STALLOC_GROWTH=4"}).settings.growth, Growth{4.0});
  EXPECT_EQ(Load({}).settings.growth, Growth{});
}

TEST(Settings, MemoryLimits) {
  const std::uint64_t device_bytes = std::uint64_t{100} << 30;
  const struct {
    const char* text;
    std::uint64_t bytes;
  } cases[] = {
      {"4096", 4096},
      {"3KiB", 3072},
      {"2 MiB", 2U << 20},
      {"1.5GiB", 3U << 29},
      {"20gib", 20ULL << 30},
      {"1TiB", 1ULL << 40},
      {"512M", 512U << 20},
      {"100%", device_bytes},
      {"50%", device_bytes / 2},
      {"20GB", 20'000'000'000},
      {"12.5 %", device_bytes / 8},
  };
  for (const auto& c : cases) {
    const Loaded loaded = Load({std::string("STALLOC_MEMORY_LIMIT=") + c.text});
    EXPECT_TRUE(loaded.warnings.empty()) << c.text;
    EXPECT_EQ(loaded.settings.memory_limit.BytesOn(device_bytes), c.bytes) << c.text;
  }
}

TEST(Settings, ABadValueGivesOneWarningAndTheDefault) {
  const struct {
    const char* name;
    const char* value;
  } cases[] = {
      {"STALLOC_DISABLE", "2"},
      {"STALLOC_LOG", "loud"},
      {"STALLOC_GROWTH", "0.9"},
      {"STALLOC_GROWTH", "nan"},
      {"STALLOC_GROWTH", "1.0x"},
      {"STALLOC_STACK_DEPTH", "0"},
      {"STALLOC_STACK_DEPTH", "65"},
      {"STALLOC_STACK_DEPTH", "1e1"},
      {"STALLOC_STACK_DEPTH", "99999999999"},
      {"STALLOC_MEMORY_LIMIT", "0"},
      {"STALLOC_MEMORY_LIMIT", "101%"},
      {"STALLOC_MEMORY_LIMIT", "20 gigs"},
      {"STALLOC_MEMORY_LIMIT", "-5%"},
      {"STALLOC_MEMORY_LIMIT", "%"},
      {"STALLOC_MEMORY_LIMIT", "-1GiB"},
      {"STALLOC_MEMORY_LIMIT", "GiB"},
      {"STALLOC_MEMORY_LIMIT", "99999999TiB"},
      {"STALLOC_TRACE", "a%d"},
      {"STALLOC_TRACE", "a%"},
      {"STALLOC_PLAN_CACHE", "maybe"},
      {"STALLOC_IPC", "perhaps"},
      {"STALLOC_SERVE", "none"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(std::string(c.name) + "=" + c.value);
    const Loaded loaded = Load({"HOME=/h", std::string(c.name) + "=" + c.value});
    ExpectOneWarning(loaded, c.name, c.value);
    const Settings defaults = Load({"HOME=/h"}).settings;
    EXPECT_EQ(loaded.settings.disable, defaults.disable);
    EXPECT_EQ(loaded.settings.log, defaults.log);
    EXPECT_EQ(loaded.settings.growth, defaults.growth);
    EXPECT_EQ(loaded.settings.stack_depth, defaults.stack_depth);
    EXPECT_EQ(loaded.settings.memory_limit, defaults.memory_limit);
    EXPECT_EQ(loaded.settings.trace, defaults.trace);
    EXPECT_EQ(loaded.settings.plan_cache, defaults.plan_cache);
    EXPECT_EQ(loaded.settings.ipc, defaults.ipc);
    EXPECT_EQ(loaded.settings.serve, defaults.serve);
  }
}

TEST(Settings, AnUnknownNameGivesOneWarningAndTheNearestName) {
  Loaded loaded = Load({"STALLOC_MEMORY_LIMT=20GiB"});
  ExpectOneWarning(loaded, "STALLOC_MEMORY_LIMT", "did you mean STALLOC_MEMORY_LIMIT?");
  EXPECT_EQ(loaded.settings.memory_limit, MemoryLimit{});
  for (const std::string other : {"STALLOC_FROBNICATE", "STALLOC_FOO"}) {  // two letters from STALLOC_LOG
    loaded = Load({other + "=1"});
    ExpectOneWarning(loaded, other, "ignored");
    EXPECT_EQ(loaded.warnings[0].find("did you mean"), std::string::npos) << loaded.warnings[0];
  }
}

TEST(Settings, EmptyValuesAndForeignNamesAreSilent) {
  const Loaded loaded = Load({"STALLOC_TRACE=", "STALLOC_GROWTH=", "STALLOC_UNKNOWN=", "STALLOC_SHARED_DATA=/data",
                              "NOT_STALLOC_TRACE=x", "STALLOC"});
  EXPECT_TRUE(loaded.warnings.empty()) << loaded.warnings[0];
  EXPECT_TRUE(loaded.settings.trace.empty());
}

TEST(Settings, WhereThePlanCacheLies) {
  EXPECT_EQ(Load({"XDG_CACHE_HOME=/x", "HOME=/h"}).settings.plan_cache, (PlanCache{true, "/x/stalloc"}));
  EXPECT_EQ(Load({"XDG_CACHE_HOME=relative", "HOME=/h"}).settings.plan_cache, (PlanCache{true, "/h/.cache/stalloc"}));
  EXPECT_EQ(Load({"STALLOC_PLAN_CACHE=./plans"}).settings.plan_cache, (PlanCache{true, "./plans"}));
  EXPECT_EQ(Load({"STALLOC_PLAN_CACHE=off", "HOME=/h"}).settings.plan_cache, (PlanCache{false, ""}));
  EXPECT_FALSE(Load({}).settings.plan_cache.enabled);  // nowhere to keep it
}

TEST(Settings, PathPatternsNameThisProcess) {
  const ProcessIdentity process = ThisProcess();
  EXPECT_FALSE(process.host.empty());
  const std::string expected =
      "/t/" + std::to_string(::getpid()) + "." + process.host + "." + std::to_string(process.rank.value_or(0)) + "%";
  EXPECT_EQ(PathPattern{"/t/%p.%h.%r%%"}.Expand(), expected);
  EXPECT_EQ(PathPattern{"plain"}.Expand(), "plain");
}

TEST(Settings, RankOfEachLauncher) {
  const char* const torchrun[] = {"LOCAL_RANK=1", "RANK=9", "SLURM_PROCID=0", nullptr};
  const char* const mpi[] = {"OMPI_COMM_WORLD_RANK=3", nullptr};
  const char* const slurm[] = {"SLURM_PROCID=12", nullptr};
  const char* const nonsense[] = {"RANK=master", "RANKING=4", "RANK", nullptr};
  EXPECT_EQ(RankIn(torchrun), 9);
  EXPECT_EQ(RankIn(mpi), 3);
  EXPECT_EQ(RankIn(slurm), 12);
  EXPECT_EQ(RankIn(nonsense), std::nullopt);
  EXPECT_EQ(RankIn(nullptr), std::nullopt);
}

// What the documentation shows as the default must be accepted as a value, and mean the default.
TEST(Settings, DocumentedDefaultsAreValues) {
  const std::string home = "HOME=/h";
  const Settings defaults = Load({home}).settings;
  std::set<std::string> names;
  for (const SettingDescription& row : DescribeSettings()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " stands twice in the table";
    EXPECT_FALSE(row.form.empty()) << row.name;
    if (row.default_value.empty()) continue;
    const Loaded loaded = Load({home, std::string(row.name) + "=" + row.default_value});
    EXPECT_TRUE(loaded.warnings.empty()) << loaded.warnings[0];
    EXPECT_EQ(loaded.settings.plan_cache, defaults.plan_cache);
    EXPECT_EQ(loaded.settings.growth, defaults.growth);
    EXPECT_EQ(loaded.settings.log, defaults.log);
  }
}

}  // namespace
}  // namespace stalloc::runtime
