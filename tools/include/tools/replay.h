// Replays a trace: the whole run, request by request, through an allocator, to see how much memory it holds.
//
// stalloc itself is replayed as it is: the runtime that is preloaded into programs, over the simulated device, with the
// learner stepped as often as its background thread would. Other allocators are models (tools/models).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "planner/trace_problem.h"
#include "runtime/device/device_memory.h"
#include "tools/models/allocator_model.h"

namespace stalloc::tools {

struct ReplayResult {
  std::string allocator;
  unsigned run = 1;  // 2 and later: begun with the plan that the run before has left
  std::uint64_t peak_live_bytes = 0;
  std::uint64_t peak_reserved_bytes = 0;
  std::uint64_t planned = 0;  // requests served from the plan
  std::uint64_t online = 0;   // and those that were not
  std::uint64_t map_calls = 0;
  std::vector<std::uint64_t> map_calls_by_step;  // empty: the trace names no steps
  std::vector<std::uint64_t> planned_by_step;    // the same
  std::uint64_t corruptions = 0;  // reads of the simulated device that found another block's contents; must be 0
  std::uint64_t waits_inserted = 0;
  double seconds = 0;

  // 1 - peak live / peak reserved.
  double Fragmentation() const;
};

// Watches stalloc being replayed: where blocks lie, and what the memory's state is after each event.
class ReplayWatcher {
 public:
  virtual ~ReplayWatcher() = default;
  // `event` is the index in the trace.
  virtual void Placed(std::size_t event, const runtime::BlockPlace& place, bool planned) = 0;
  virtual void Freed(std::size_t event) = 0;
  virtual void After(std::size_t event, const runtime::MemoryCounters& counters,
                     const runtime::DeviceMemory& memory) = 0;
};

// Called after each event with the bytes that are live and that are held.
using LevelSink = std::function<void(std::size_t event, std::uint64_t live_bytes, std::uint64_t reserved_bytes)>;

struct StallocReplayOptions {
  unsigned runs = 1;
  // STALLOC_GROWTH. nullopt, auto: by the times in the trace and what mapping costs on a real device; as 1 where the
  // trace has no times.
  std::optional<double> growth;
  bool planning = true;  // STALLOC_PLANNING
  // Requests and frees between two looks of the learner. Its thread looks every 10 ms, in which a training step makes
  // some hundreds or thousands of them; when a plan comes depends on it.
  std::size_t look_every = 1000;
  std::string plan_path;  // STALLOC_PLAN; empty: a file that is gone afterwards
  std::uint64_t device_memory_bytes = 140ull << 30;
  ReplayWatcher* watcher = nullptr;  // of the last run
};

inline constexpr const char* kStallocAllocator = "stalloc";

// Throws Failure(kInfeasible) if the trace does not fit the device. One at a time: there is one simulated machine.
std::vector<ReplayResult> ReplayStalloc(const planner::Trace& trace, const StallocReplayOptions& options);

ReplayResult ReplayModel(const planner::Trace& trace, const std::string& name, AllocatorModel& model,
                         const LevelSink& levels = {});

// The trace without the requests of other devices than its first one, and without those of zero bytes. Call sites keep
// their frames.
planner::Trace OneDevice(const planner::Trace& trace);

}  // namespace stalloc::tools
