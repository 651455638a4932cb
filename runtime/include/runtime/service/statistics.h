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
#include "runtime/base/iteration_log.h"
#include "runtime/device/device_memory.h"
#include "runtime/following/plan_status.h"
#include "runtime/service/device_service.h"

namespace stalloc::runtime {

struct DeviceFigures {
#define STALLOC_DEVICE_FIGURE(member, value, sentence) std::uint64_t member = 0;
#define STALLOC_PROCESS_FIGURE(member, sentence)
#include "runtime/service/statistics.def"
#undef STALLOC_DEVICE_FIGURE
#undef STALLOC_PROCESS_FIGURE

  friend bool operator==(const DeviceFigures&, const DeviceFigures&) = default;
};

DeviceFigures FiguresOf(const MemorySnapshot& memory);

struct DeviceStatistics {
  int ordinal = 0;
  std::string name;
  DeviceFigures figures;
  std::optional<std::uint64_t> limit_bytes{};
  IterationLog iterations{};
  IterationLog::Totals after_warm_up{};  // spent since iterations.warm_from() began
  PlanStatus plan{};
};
DeviceStatistics StatisticsOf(const DeviceService& service);

struct Statistics {
  std::vector<DeviceStatistics> devices;  // those that served anything
#define STALLOC_DEVICE_FIGURE(member, value, sentence)
#define STALLOC_PROCESS_FIGURE(member, sentence) std::uint64_t member = 0;
#include "runtime/service/statistics.def"
#undef STALLOC_DEVICE_FIGURE
#undef STALLOC_PROCESS_FIGURE

  // Adds what was served in a context that has ended, and its memory with it: to the device's entry, if it has one.
  void AddEnded(DeviceStatistics ended);

  // Sums over the devices; of peaks too, which the devices need not have reached at the same moment.
  DeviceFigures Total() const;
};

// 1 - peak live / peak reserved, in [0, 1]; 0 if nothing was held.
double Fragmentation(const DeviceFigures& figures);

// The line that ends a served process, without the log's head, of all devices together:
//   peak live 13.42 GiB, peak reserved 13.47 GiB, fragmentation 0.37 %; requests: 31042 (97.1 %) planned, ...
// Where little was planned, it ends with the reason.
std::string SummaryLine(const Statistics& statistics);

// The statistics as JSON, format "stalloc-statistics", version 1. A later version may add members; it does not change
// what these mean. Figures are 64-bit counts, named and explained in statistics.def.
//   format, version
//   process    pid, host, rank (null without a launcher), program (16 hex digits), and the process figures
//   total      the sums of the devices' figures, and fragmentation
//   devices[]  ordinal, name, the device figures, fragmentation (1 - peak live / peak reserved), and
//     limit_bytes        STALLOC_MEMORY_LIMIT on this device, or null
//     plan               state ("off", "watching", "waiting", "on trial", "settled", "left alone"), reason (why there
//                        is no plan: null, "no iteration", "iterations differ"), kept ("not looked for", "none",
//                        "used", "refused": the plan of an earlier run; "used" means that requests were known from the
//                        first iteration on), file (where the plan is kept for the next run: null, nowhere), shared
//                        (another rank made what is kept there), not_kept (why the newest plan was not: null, or that
//                        a run would hold more by it than without), and of the newest plan method (null: there has
//                        been none), period (requests and frees of an iteration), requests, planned_requests (those
//                        with a slot), choices (plans with fewer pages are kept aside: how many plans there are to
//                        choose from; 0 where no plan would save noticeably many), and pressure_switches: how often
//                        another of them was put in force because memory was short, or no longer was
//     last_iterations[]  number (from 1), requests, planned_requests, map_calls, map_us, waits_inserted; oldest first,
//                        at most 16. Iterations before the first plan were not told apart and are not in it.
//     after_warm_up      null, or what has been spent from iteration from_iteration on, which is the fifth or the first
//                        one after that to be told apart: requests, planned_requests, map_calls, map_us, waits_inserted
std::string StatisticsJson(const Statistics& statistics);

// Why WriteStatistics could not write to `path`, as far as can be said before; nullopt: nothing is known.
std::optional<planner::FileError> FindStatisticsObstacle(const std::string& path);

// Writes StatisticsJson to `path`; JSON that is there is replaced as a whole, anything else is left. nullopt: done.
std::optional<planner::FileError> WriteStatistics(const Statistics& statistics, const std::string& path);

}  // namespace stalloc::runtime
