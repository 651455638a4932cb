// Statistics: what happened, as the program's last line and as JSON. The figures stand in statistics.def.
//
// A snapshot: whoever reports collects it from the counters, off the serving path. Plain data, no locks; the functions
// may be called by any thread and allocate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/result.h"

namespace stalloc::runtime {

struct MemoryCounters;

struct DeviceFigures {
#define STALLOC_DEVICE_FIGURE(member, value, sentence) std::uint64_t member = 0;
#define STALLOC_PROCESS_FIGURE(member, sentence)
#include "runtime/statistics.def"
#undef STALLOC_DEVICE_FIGURE
#undef STALLOC_PROCESS_FIGURE

  friend bool operator==(const DeviceFigures&, const DeviceFigures&) = default;
};

DeviceFigures FiguresOf(const MemoryCounters& counters);

struct DeviceStatistics {
  int ordinal = 0;
  std::string name;
  DeviceFigures figures;
};

struct Statistics {
  std::vector<DeviceStatistics> devices;  // those that served anything
#define STALLOC_DEVICE_FIGURE(member, value, sentence)
#define STALLOC_PROCESS_FIGURE(member, sentence) std::uint64_t member = 0;
#include "runtime/statistics.def"
#undef STALLOC_DEVICE_FIGURE
#undef STALLOC_PROCESS_FIGURE

  // Sums over the devices; of peaks too, which the devices need not have reached at the same moment.
  DeviceFigures Total() const;
};

// 1 - peak live / peak reserved, in [0, 1]; 0 if nothing was held.
double Fragmentation(const DeviceFigures& figures);

// The line that ends a served process, without the log's head:
//   peak live 13.42 GiB, peak reserved 13.47 GiB, fragmentation 0.37 %; requests: 98.1 % served planned ...
// with the counts behind. Of all devices together.
std::string SummaryLine(const Statistics& statistics);

// The statistics as JSON, format "stalloc-statistics", version 1:
//   {"format", "version", "process": {"pid", "host", "rank" or null, "program": "16 hex digits", process figures},
//    "total": {device figures, "fragmentation"}, "devices": [{"ordinal", "name", device figures, "fragmentation"}]}
// A later version may add members; it does not change what these mean.
std::string StatisticsJson(const Statistics& statistics);

// Writes StatisticsJson to `path`; an existing file is replaced as a whole. nullopt: done.
std::optional<planner::FileError> WriteStatistics(const Statistics& statistics, const std::string& path);

}  // namespace stalloc::runtime
