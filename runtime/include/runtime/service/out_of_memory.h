// The out-of-memory report: what a program is told on standard error when it is about to see CUDA's out-of-memory
// error.
//
// It comes after everything was tried: idle pages given back or stitched together, after a synchronisation where order
// permits one. Only whole pages that nothing lives in can be moved; a live block stays where its pointer points.
//
// Off the serving path: a request that fails takes a snapshot, asks the driver what is free, formats and writes, with
// no lock held meanwhile but the snapshot's own.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/device/device_memory.h"

namespace stalloc::runtime {

class DeviceService;

// What was asked for and not to be had.
struct Refused {
  std::uint64_t size_bytes = 0;    // 0: not known
  const char* function = nullptr;  // the function that the driver refused; nullptr: a served request, over the limit
};

// Everything that the report says.
struct OutOfMemoryFacts {
  Refused refused;
  int ordinal = 0;
  std::string device;
  std::uint64_t device_bytes = 0;              // its physical memory
  std::uint64_t free_bytes = 0;                // of it, by the driver
  std::optional<std::uint64_t> limit_bytes{};  // STALLOC_MEMORY_LIMIT
  bool capturing = false;                      // some stream of the process captures: nothing could be waited for
  MemorySnapshot memory;
};

// The whole report, several lines; one line for a request that could never be served; the one line that follows a
// report soon after it, `failures` being those since the report.
std::string OutOfMemoryReport(const OutOfMemoryFacts& facts);
std::string OutOfMemoryAgain(const OutOfMemoryFacts& facts, std::uint64_t failures);

// How much is said of the failures of one device. A program that probes (by asking for less and less until it is given
// something) fails often in a short time: the first failure is reported in full, the next ones by a line now and then,
// until there has been a pause. Each report makes the pause that is asked for before the next one longer.
class ReportPace {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Say : std::uint8_t { kReport, kLine, kNothing };

  Say Next(Clock::time_point now) noexcept;
  // Failures since the last report, the last one included.
  std::uint64_t failures() const noexcept { return failures_; }

 private:
  static constexpr std::chrono::seconds kPause{10};  // doubles with every report
  static constexpr std::chrono::seconds kBetweenLines{1};
  static constexpr int kMostDoublings = 8;

  int reports_ = 0;
  std::uint64_t failures_ = 0;
  Clock::time_point last_failure_;
  Clock::time_point last_said_;
};

// Reports the failures of one device. Any thread, with the service's context current.
class OutOfMemoryReporter {
 public:
  void Failed(const DriverApi& driver, const DeviceService& service, const Refused& refused) noexcept;

 private:
  std::mutex mutex_;
  ReportPace pace_;  // under mutex_
};

}  // namespace stalloc::runtime
