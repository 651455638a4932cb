#include "runtime/statistics.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/device_memory.h"

namespace stalloc::runtime {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

Statistics Example() {
  Statistics statistics;
  MemoryCounters counters;
  counters.peak_live_bytes = 10 * kGiB;
  counters.peak_reserved_bytes = 10 * kGiB + kGiB / 16;
  counters.planned_requests = 999;
  counters.online_requests = 1;
  counters.map_ns = 1234567;
  statistics.devices.push_back({0, "Device \"A\" \xff", FiguresOf(counters)});
  statistics.passed_through_requests = 12;
  return statistics;
}

// Every figure of the table is carried over from the counters that the memory keeps.
TEST(Statistics, FiguresComeFromTheCounters) {
  MemoryCounters counters;
  EXPECT_EQ(FiguresOf(counters), DeviceFigures{});
  counters.live_bytes = 1;
  counters.out_of_memory = 2;
  counters.map_ns = 3999;
  counters.iterations = 4;
  const DeviceFigures figures = FiguresOf(counters);
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
#include "runtime/statistics.def"
#undef STALLOC_DEVICE_FIGURE
#undef STALLOC_PROCESS_FIGURE
  }
}

TEST(Statistics, TheFileIsReplacedAsAWhole) {
  const std::string path = ::testing::TempDir() + "stalloc_statistics." + std::to_string(::getpid()) + ".json";
  std::ofstream(path) << "something longer that was there before, and much longer than that";
  EXPECT_EQ(WriteStatistics(Example(), path), std::nullopt);
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_EQ(nlohmann::json::parse(text)["version"], 1);
  std::remove(path.c_str());
  const auto error = WriteStatistics(Example(), "/nonexistent-directory/statistics.json");
  ASSERT_TRUE(error.has_value());
  EXPECT_NE(error->Text().find("/nonexistent-directory"), std::string::npos);
}

}  // namespace
}  // namespace stalloc::runtime
