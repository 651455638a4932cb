#include "runtime/service/statistics.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace stalloc::runtime {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

Statistics Example() {
  Statistics statistics;
  MemorySnapshot memory;
  MemoryCounters& counters = memory.counters;
  counters.peak_live_bytes = 10 * kGiB;
  counters.peak_reserved_bytes = 10 * kGiB + kGiB / 16;
  counters.planned_requests = 999;
  counters.online_requests = 1;
  counters.spent[Cause::kMapping] = 1234567;
  memory.idle.view_bytes = 77;
  statistics.devices.push_back({.ordinal = 0, .name = "Device \"A\" \xff", .figures = FiguresOf(memory)});
  statistics.passed_through_requests = 12;
  return statistics;
}

// Every figure of the table is carried over from the counters that the memory keeps.
TEST(Statistics, FiguresComeFromTheCounters) {
  MemorySnapshot memory;
  MemoryCounters& counters = memory.counters;
  EXPECT_EQ(FiguresOf(memory), DeviceFigures{});
  memory.idle.remainder_bytes = 5;
  counters.live_bytes = 1;
  counters.out_of_memory = 2;
  counters.spent[Cause::kMapping] = 3999;
  counters.iterations = 4;
  const DeviceFigures figures = FiguresOf(memory);
  EXPECT_EQ(figures.idle_remainder_bytes, 5U);
  EXPECT_EQ(figures.live_bytes, 1U);
  EXPECT_EQ(figures.out_of_memory, 2U);
  EXPECT_EQ(figures.map_us, 3U);
  EXPECT_EQ(figures.iterations, 4U);
}

TEST(Statistics, TheSummaryLine) {
  Statistics statistics = Example();
  EXPECT_EQ(
      SummaryLine(statistics),
      "peak live 10.00 GiB, peak reserved 10.06 GiB, fragmentation 0.62 %; requests: 999 (99.9 %) planned, 1 online, "
      "12 passed through");
  statistics.devices.push_back(statistics.devices[0]);
  statistics.devices[1].figures.out_of_memory = 3;
  EXPECT_EQ(SummaryLine(statistics),
            "peak live 20.00 GiB, peak reserved 20.12 GiB, fragmentation 0.62 % on 2 devices; requests: 1998 (99.9 %) "
            "planned, 2 online, 12 passed through; out of memory 3 times");
  EXPECT_EQ(SummaryLine(Statistics{}),
            "peak live 0 B, peak reserved 0 B, fragmentation 0.00 %; requests: 0 planned, 0 online, 0 passed through");
}

TEST(Statistics, OnlyAllOfThemAreAHundredPerCent) {
  Statistics statistics = Example();
  statistics.devices[0].figures.planned_requests = 1000000;
  EXPECT_NE(SummaryLine(statistics).find("(99.9 %)"), std::string::npos);
  statistics.devices[0].figures.online_requests = 0;
  EXPECT_NE(SummaryLine(statistics).find("(100 %)"), std::string::npos);
}

// What a user is told who wonders why so much is held.
TEST(Statistics, TheSummaryLineSaysHowMuchMayBeHeldToSaveTime) {
  Statistics statistics = Example();
  EXPECT_EQ(SummaryLine(statistics).find("to save time"), std::string::npos);
  statistics.devices[0].figures.growth_bytes = std::uint64_t{3} << 30;
  EXPECT_NE(SummaryLine(statistics).find(" passed through; up to 3.00 GiB more held to save time"), std::string::npos);
}

// What a user is told who wonders why nothing was planned.
TEST(Statistics, TheSummaryLineSaysWhyLittleWasPlanned) {
  using State = PlanStatus::State;
  using Reason = PlanStatus::Reason;
  const auto end_of_line = [](std::uint64_t planned, std::uint64_t online, PlanStatus plan) {
    Statistics statistics;
    DeviceStatistics& device = statistics.devices.emplace_back();
    device.figures.planned_requests = planned;
    device.figures.online_requests = online;
    device.figures.matched_requests = planned;
    device.plan = std::move(plan);
    const std::string line = SummaryLine(statistics);
    return line.substr(line.find("passed through") + 14);
  };
  EXPECT_EQ(end_of_line(0, 3, {.state = State::kWatching}), "; not planned: too few requests to learn from");
  EXPECT_EQ(end_of_line(0, 9000, {.state = State::kWatching}), "; not planned: no repeating iteration was found");
  EXPECT_EQ(end_of_line(0, 9000, {.state = State::kLeftAlone, .reason = Reason::kIterationsDiffer}),
            "; not planned: iterations differ too much");
  EXPECT_EQ(end_of_line(0, 9000, {.state = State::kOff}), "; not planned: planning is off");
  EXPECT_EQ(end_of_line(0, 9000, {.state = State::kWaiting}),
            "; not planned: the run ended before its plan came into force");
  EXPECT_EQ(end_of_line(1000, 9000, {.state = State::kWaiting}), "; mostly online: the plan came late in the run");
  EXPECT_EQ(end_of_line(1000, 9000, {.state = State::kOnTrial}), "; mostly online: the plan came late in the run");
  EXPECT_EQ(end_of_line(9000, 1000, {.state = State::kSettled}), "");
  EXPECT_EQ(end_of_line(0, 0, {}), "");
}

// cudaDeviceReset: what was served before it counts, what was held is gone.
TEST(Statistics, AContextThatHasEndedIsCounted) {
  Statistics statistics;
  DeviceStatistics ended = Example().devices[0];
  ended.figures.reserved_bytes = kGiB;
  statistics.AddEnded(ended);
  ASSERT_EQ(statistics.devices.size(), 1U);
  EXPECT_EQ(statistics.devices[0].figures.planned_requests, 999U);
  EXPECT_EQ(statistics.devices[0].figures.reserved_bytes, 0U);

  ended.figures.peak_live_bytes = 11 * kGiB;
  statistics.AddEnded(ended);
  ASSERT_EQ(statistics.devices.size(), 1U);
  EXPECT_EQ(statistics.devices[0].figures.planned_requests, 2 * 999U);
  EXPECT_EQ(statistics.devices[0].figures.peak_live_bytes, 11 * kGiB);
  EXPECT_EQ(statistics.devices[0].figures.peak_reserved_bytes, 10 * kGiB + kGiB / 16);
  ended.ordinal = 1;
  statistics.AddEnded(ended);
  EXPECT_EQ(statistics.devices.size(), 2U);
}

TEST(Statistics, TheJsonTellsOfThePlanAndTheIterations) {
  Statistics statistics = Example();
  DeviceStatistics& device = statistics.devices[0];
  nlohmann::json json = nlohmann::json::parse(StatisticsJson(statistics))["devices"][0];
  EXPECT_TRUE(json["limit_bytes"].is_null());
  EXPECT_TRUE(json["plan"]["method"].is_null());
  EXPECT_EQ(json["plan"]["state"], "watching");
  EXPECT_EQ(json["plan"]["kept"], "not looked for");
  EXPECT_TRUE(json["last_iterations"].empty());
  EXPECT_TRUE(json["after_warm_up"].is_null());

  device.limit_bytes = 123;
  device.plan = {.state = PlanStatus::State::kSettled,
                 .kept = PlanStatus::Kept::kUsed,
                 .file = "/cache/a.plan",
                 .shared = true,
                 .not_kept = "too large",
                 .method = "runs",
                 .period = 200,
                 .requests = 100,
                 .planned_requests = 99,
                 .choices = 5,
                 .pressure_switches = 2};
  for (std::uint64_t i = 1; i <= 6; ++i)
    device.iterations.Boundary({.requests = 100 * i,
                                .planned = 90 * i,
                                .map_calls = 7,
                                .waits = i,
                                .spent = {{8000, 10'000 * i, 20'000 * i, 30'000 * i, 40'000 * i, 50'000 * i}}},
                               100);
  device.after_warm_up = {.requests = 200, .planned = 180, .map_calls = 0, .waits = 2, .spent = {{0, 5999}}};
  json = nlohmann::json::parse(StatisticsJson(statistics))["devices"][0];
  EXPECT_EQ(json["limit_bytes"], 123);
  EXPECT_EQ(json["plan"], nlohmann::json::parse(R"({"state": "settled", "reason": null, "kept": "used",
      "file": "/cache/a.plan", "shared": true, "not_kept": "too large", "method": "runs", "period": 200,
      "requests": 100, "planned_requests": 99, "choices": 5, "pressure_switches": 2})"));
  ASSERT_EQ(json["last_iterations"].size(), 5U);
  EXPECT_EQ(json["last_iterations"][4], nlohmann::json::parse(R"({"number": 6, "requests": 100,
      "planned_requests": 90, "map_calls": 0, "map_us": 0, "waits_inserted": 1, "wait_us": 20, "search_us": 10,
      "marker_us": 30, "call_site_us": 40, "learning_us": 50})"));
  EXPECT_EQ(json["after_warm_up"], nlohmann::json::parse(R"({"from_iteration": 5, "requests": 200,
      "planned_requests": 180, "map_calls": 0, "map_us": 0, "waits_inserted": 2, "wait_us": 0, "search_us": 5,
      "marker_us": 0, "call_site_us": 0, "learning_us": 0})"));
}

TEST(Statistics, FragmentationStaysInItsRange) {
  DeviceFigures figures;
  EXPECT_EQ(Fragmentation(figures), 0.0);
  figures.peak_live_bytes = 3;
  figures.peak_reserved_bytes = 4;
  EXPECT_DOUBLE_EQ(Fragmentation(figures), 0.25);
  figures.peak_live_bytes = 5;
  EXPECT_EQ(Fragmentation(figures), 0.0);
}

TEST(Statistics, TheJsonHoldsEveryFigure) {
  const nlohmann::json json = nlohmann::json::parse(StatisticsJson(Example()));
  EXPECT_EQ(json["format"], "stalloc-statistics");
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["process"]["pid"], ::getpid());
  EXPECT_EQ(json["process"]["passed_through_requests"], 12);
  EXPECT_EQ(json["devices"].size(), 1U);
  EXPECT_EQ(json["devices"][0]["ordinal"], 0);
  for (const char* part : {"total", "device"}) {
    const nlohmann::json& figures = part == std::string("total") ? json["total"] : json["devices"][0];
    EXPECT_EQ(figures["planned_requests"], 999) << part;
    EXPECT_EQ(figures["map_us"], 1234) << part;
    EXPECT_NEAR(figures["fragmentation"].get<double>(), 1.0 - 160.0 / 161.0, 1e-12) << part;
#define STALLOC_DEVICE_FIGURE(member, value, sentence) EXPECT_TRUE(figures[#member].is_number_unsigned()) << #member;
#define STALLOC_PROCESS_FIGURE(member, sentence) EXPECT_TRUE(json["process"][#member].is_number_unsigned()) << #member;
#include "runtime/service/statistics.def"
#undef STALLOC_DEVICE_FIGURE
#undef STALLOC_PROCESS_FIGURE
  }
}

TEST(Statistics, TheFileIsReplacedAsAWhole) {
  const std::string path = ::testing::TempDir() + "stalloc_statistics." + std::to_string(::getpid()) + ".json";
  std::ofstream(path) << "{\"something longer that was there before\": \"and much longer than that\"}";
  EXPECT_EQ(WriteStatistics(Example(), path), std::nullopt);
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_EQ(nlohmann::json::parse(text)["version"], 1);
  std::ofstream(path) << "print('a script whose name was given by mistake')";
  const auto refused = WriteStatistics(Example(), path);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->Text(), path + ": holds something else, and is left as it is");
  std::string kept;
  std::getline(std::ifstream(path), kept);
  EXPECT_EQ(kept, "print('a script whose name was given by mistake')");
  std::remove(path.c_str());
  const auto error = WriteStatistics(Example(), "/nonexistent-directory/statistics.json");
  ASSERT_TRUE(error.has_value());
  EXPECT_NE(error->Text().find("/nonexistent-directory"), std::string::npos);
}

}  // namespace
}  // namespace stalloc::runtime
