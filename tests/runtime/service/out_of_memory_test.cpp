#include "runtime/service/out_of_memory.h"

#include <gtest/gtest.h>

#include "runtime/call_sites/code_name.h"

namespace stalloc::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

OutOfMemoryFacts Full() {
  OutOfMemoryFacts facts;
  facts.refused = {.size_bytes = 2 * kGiB, .function = "cuMemAllocAsync"};
  facts.device = "Device A";
  facts.device_bytes = 80 * kGiB;
  facts.free_bytes = kGiB;
  facts.memory.counters.live_bytes = 76 * kGiB;
  facts.memory.counters.reserved_bytes = 77 * kGiB;
  facts.memory.idle.remainder_bytes = kGiB;
  facts.memory.sites = {{.tag = 0, .bytes = 76 * kGiB, .blocks = 5}};
  return facts;
}

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(OutOfMemory, TheReportSaysWhatIsWhere) {
  const std::string report = OutOfMemoryReport(Full());
  EXPECT_TRUE(report.starts_with("out of memory on device 0 (Device A): 2.00 GiB requested by cuMemAllocAsync\n"));
  for (const char* part : {"live      76.00 GiB in 5 blocks", "reserved  77.00 GiB (peak", "1.00 GiB beside blocks",
                           "80.00 GiB, 1.00 GiB free, 2.00 GiB held by others",
                           "76.00 GiB in 5 blocks: call sites not taken", "98.7 % of what is held is live"})
    EXPECT_TRUE(Has(report, part)) << part << "\n" << report;
  EXPECT_FALSE(Has(report, "STALLOC_MEMORY_LIMIT")) << report;
  EXPECT_FALSE(Has(report, "beside it on the device")) << report;
}

// Each cause alone, and what would help against it.
TEST(OutOfMemory, TheAdviceFitsTheCause) {
  OutOfMemoryFacts limited = Full();
  limited.refused.function = nullptr;
  limited.device_bytes = 100 * kGiB;
  limited.free_bytes = 23 * kGiB;
  limited.limit_bytes = 77 * kGiB;
  EXPECT_TRUE(Has(OutOfMemoryReport(limited), "a higher STALLOC_MEMORY_LIMIT: it is 77.00 GiB, and the device has 23"));

  OutOfMemoryFacts crowded = Full();
  crowded.memory.counters.live_bytes = crowded.memory.counters.reserved_bytes = 20 * kGiB;
  EXPECT_TRUE(Has(OutOfMemoryReport(crowded), "59.00 GiB are held by other processes"));

  OutOfMemoryFacts ordered = Full();
  ordered.memory.idle.ordered_bytes = 3 * kGiB;
  EXPECT_TRUE(Has(OutOfMemoryReport(ordered), "a synchronisation before this request frees them"));
  ordered.capturing = true;
  EXPECT_TRUE(Has(OutOfMemoryReport(ordered), "while a CUDA graph is captured"));

  OutOfMemoryFacts crumbs = Full();
  crumbs.memory.idle.remainder_bytes = 10 * kGiB;
  EXPECT_TRUE(Has(OutOfMemoryReport(crumbs), "fewer small long-lived blocks: they keep 10.00 GiB idle"));
}

TEST(OutOfMemory, WhatNoDeviceCouldServeIsOneLine) {
  OutOfMemoryFacts facts = Full();
  facts.refused.size_bytes = 81 * kGiB;
  EXPECT_EQ(OutOfMemoryReport(facts),
            "out of memory on device 0 (Device A): 81.00 GiB requested by cuMemAllocAsync, more than the device's "
            "80.00 GiB in all");
  facts.refused = {.size_bytes = 41 * kGiB};
  facts.limit_bytes = 40 * kGiB;
  EXPECT_TRUE(Has(OutOfMemoryReport(facts), "more than the 40.00 GiB in all of STALLOC_MEMORY_LIMIT"));
}

TEST(OutOfMemory, AProbeIsSaidOnce) {
  ReportPace pace;
  auto now = ReportPace::Clock::time_point(seconds(1000));
  EXPECT_EQ(pace.Next(now), ReportPace::Say::kReport);
  for (int halving = 0; halving < 20; ++halving)
    EXPECT_EQ(pace.Next(now += milliseconds(10)), ReportPace::Say::kNothing);
  EXPECT_EQ(pace.Next(now += seconds(1)), ReportPace::Say::kLine);
  EXPECT_EQ(pace.failures(), 22u);
  EXPECT_EQ(pace.Next(now += milliseconds(999)), ReportPace::Say::kNothing);
  EXPECT_EQ(pace.Next(now += seconds(10)), ReportPace::Say::kReport) << "a failure of its own, after a pause";
  EXPECT_EQ(pace.failures(), 1u);
}

// A program that probes every 15 seconds for a day.
TEST(OutOfMemory, ReportsGetRarer) {
  ReportPace pace;
  auto now = ReportPace::Clock::time_point(seconds(1000));
  int reports = 0;
  for (int probe = 0; probe < 5760; ++probe) {
    reports += pace.Next(now) == ReportPace::Say::kReport ? 1 : 0;
    now += seconds(15);
  }
  EXPECT_EQ(reports, 2);
}

TEST(CodeName, NamesExportedFunctionsAndModules) {
  const auto inside = reinterpret_cast<std::uintptr_t>(&std::abort) + 4;
  const std::string name = CodeName(inside);
  EXPECT_TRUE(Has(name, "abort") || Has(name, "+0x")) << name;
  EXPECT_TRUE(Has(CodeName(16), "0xf")) << CodeName(16);
}

}  // namespace
}  // namespace stalloc::runtime
