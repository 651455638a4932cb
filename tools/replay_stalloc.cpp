// stalloc's own runtime over the simulated device.
//
// Every block is written when it is allocated and read before it is freed, in the order of its streams, so that memory
// that two blocks share, or that is reused before its last read has executed, is seen.
#include <cuda.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <chrono>
#include <memory>
#include <unordered_map>
#include <vector>

#include "planner/plan_file.h"
#include "runtime/base/driver_api.h"
#include "runtime/base/settings.h"
#include "runtime/pages/peer_access.h"
#include "runtime/service/device_service.h"
#include "simcuda/device.h"
#include "simcuda/driver_table.h"
#include "simcuda/extensions.h"
#include "tools/failure.h"
#include "tools/replay.h"
#include "tools/step_counter.h"
#include "tools/temporary_folder.h"
#include "tools/text.h"

namespace stalloc::tools {
namespace {

// The trace is the program, and what it was told to do.
std::uint64_t ConfigurationOf(const planner::Trace& trace) {
  std::vector<planner::Bytes> sizes;
  for (const planner::TraceEvent& event : trace.events) sizes.push_back(event.size_bytes);
  return XXH3_64bits(sizes.data(), sizes.size() * sizeof(planner::Bytes)) | 1;
}

bool HasTimes(const planner::Trace& trace) {
  return !trace.events.empty() && trace.events.back().time_ns != trace.events.front().time_ns;
}

using planner::TraceEvent;
using runtime::DeviceMemory;

void CheckSimulated(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS)
    throw Failure(ExitCode::kInternal, Format("simulated device: %s: error %d", what, result));
}

// The one machine of this process, with a context that is current.
class SimulatedDevice {
 public:
  explicit SimulatedDevice(std::uint64_t memory_bytes) {
    simcuda::Config config;
    config.memory_bytes = memory_bytes;
    simcuda::Reset(config);
    SIMCUDA_FILL_DRIVER_TABLE(driver_, STALLOC_DRIVER_FUNCTIONS);
    CheckSimulated(cuInit(0), "cuInit");
    CheckSimulated(cuDeviceGet(&device_, 0), "cuDeviceGet");
    CheckSimulated(cuDevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
    CheckSimulated(cuCtxSetCurrent(context_), "cuCtxSetCurrent");
  }

  const runtime::DriverApi& driver() const { return driver_; }
  CUdevice device() const { return device_; }
  CUcontext context() const { return context_; }

  // The stream that stands for a trace's `ordinal`: the legacy stream for the first, as frameworks use it.
  CUstream Stream(std::uint32_t ordinal) {
    while (streams_.size() <= ordinal) {
      CUstream stream = nullptr;
      if (!streams_.empty()) CheckSimulated(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
      streams_.push_back(stream);
    }
    return streams_[ordinal];
  }

 private:
  runtime::DriverApi driver_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  std::vector<CUstream> streams_;
};

class Replay {
 public:
  Replay(const planner::Trace& trace, const StallocReplayOptions& options, const std::string& plan_path,
         ReplayWatcher* watcher)
      : trace_(trace), look_every_(options.look_every), watcher_(watcher), device_(options.device_memory_bytes) {
    runtime::Settings settings;
    settings.growth.fixed = options.growth;
    if (!options.growth && !HasTimes(trace)) settings.growth.fixed = 1.0;
    settings.planning = options.planning;
    settings.plan.text = plan_path;
    settings.plan_cache.enabled = false;
    runtime::DeviceService::Refusal refusal;
    runtime::DeviceService::Recorded recorded{.configuration = ConfigurationOf(trace_),
                                              .clock_ns = [this] { return NowNs(); }};
    // The trace does not say of which program it is, nor on which device and with which arguments it ran: a plan that a
    // process has kept is taken to be of the same.
    if (const auto plan = planner::ReadPlanFile(plan_path)) {
      recorded.program = plan->program;
      recorded.device_name = plan->device;
      if (plan->program != 0) recorded.configuration = plan->configuration;
    }
    service_ = runtime::DeviceService::Make(device_.driver(), settings, device_.device(), device_.context(), peers_,
                                            &refusal, &recorded);
    if (service_ == nullptr) throw Failure(ExitCode::kInternal, "simulated device: " + refusal.reason);
  }

  ReplayResult Run() {
    const auto start = std::chrono::steady_clock::now();
    DeviceMemory& memory = service_->memory();
    StepCounter maps_by_step(trace_);
    StepCounter planned_by_step(trace_);
    auto order = trace_.order.begin();
    for (std::size_t k = 0; k < trace_.events.size(); ++k) {
      for (; order != trace_.order.end() && order->before <= k; ++order) FollowOrder(order->event);
      const TraceEvent& event = trace_.events[k];
      event_ns_ = event.time_ns;
      event.op == TraceEvent::Op::kAllocate ? Allocate(k, event) : Free(k, event);
      if (k % look_every_ == 0) service_->learner().Step();
      const runtime::MemoryCounters now = memory.Counters();
      maps_by_step.Count(k, now.map_calls);
      planned_by_step.Count(k, now.planned_requests);
      if (watcher_ != nullptr) watcher_->After(k, now, memory);
    }
    CheckSimulated(cuCtxSynchronize(), "cuCtxSynchronize");

    const runtime::MemoryCounters counters = memory.Counters();
    ReplayResult result;
    result.allocator = kStallocAllocator;
    result.peak_live_bytes = counters.peak_live_bytes;
    result.peak_reserved_bytes = counters.peak_reserved_bytes;
    result.planned = counters.planned_requests;
    result.online = counters.online_requests;
    result.map_calls = counters.map_calls;
    result.map_calls_by_step = maps_by_step.Take();
    result.planned_by_step = planned_by_step.Take();
    result.corruptions = simcudaCorruptions();
    result.waits_inserted = counters.waits_inserted;
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  }

 private:
  struct Block {
    CUdeviceptr address = 0;
    std::uint64_t size_bytes = 0;
    std::uint32_t stream = 0;
  };

  // The program's clock: when it did what it does now, and what the calls that were made for it would have taken.
  std::uint64_t NowNs() const { return event_ns_ + simcudaVirtualTimeNs(); }

  std::optional<DeviceMemory::Order> OrderOf(const TraceEvent& event) {
    if ((event.flags & TraceEvent::kHasStream) == 0) return std::nullopt;
    return DeviceMemory::Order{device_.Stream(event.stream), nullptr};
  }

  // The program's own order, done on the device and told to the allocator as the hooks do.
  void FollowOrder(const TraceEvent& event) {
    auto [at, fresh] = events_.try_emplace(event.block, nullptr);
    const CUstream stream = device_.Stream(event.stream);
    if (event.op == TraceEvent::Op::kRecord) {
      RecordOn(stream, &at->second);
    } else if (!fresh && at->second != nullptr) {
      LetWait(stream, at->second);
    }
  }

  void RecordOn(CUstream stream, CUevent* event) {
    if (*event == nullptr) CheckSimulated(cuEventCreate(event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    DeviceMemory& memory = service_->memory();
    const DeviceMemory::Record record = memory.NoteEventRecords(*event, {stream, nullptr});
    CheckSimulated(cuEventRecord(*event, stream), "cuEventRecord");
    memory.NoteEventRecorded(*event, {stream, nullptr}, record);
  }

  void LetWait(CUstream stream, CUevent event) {
    CheckSimulated(cuStreamWaitEvent(stream, event, 0), "cuStreamWaitEvent");
    service_->memory().NoteStreamWaits({stream, nullptr}, event, service_->memory().RecordOf(event));
  }

  void Allocate(std::size_t k, const TraceEvent& event) {
    DeviceMemory& memory = service_->memory();
    // As in the program, where a call site is not taken if the plan knows the request without.
    const std::uint64_t call_site = memory.WantsCallSite(event.size_bytes) ? event.call_site : 0;
    const DeviceMemory::Allocation made = memory.Allocate(event.size_bytes, OrderOf(event), call_site);
    if (made.result == CUDA_ERROR_OUT_OF_MEMORY) {
      throw Failure(
          ExitCode::kInfeasible,
          Format("event %llu: %s more than the %s that are live do not fit into the simulated device; --memory "
                 "gives it more",
                 static_cast<unsigned long long>(event.sequence), HumanBytes(event.size_bytes).c_str(),
                 HumanBytes(memory.Snapshot().counters.live_bytes).c_str()));
    }
    CheckSimulated(made.result, "allocation");
    if (watcher_ != nullptr) {
      const std::optional<runtime::BlockPlace> place = memory.PlaceOfBlock(made.address);
      if (place) watcher_->Placed(k, *place, made.planned);
    }
    live_.emplace(event.block, Block{made.address, event.size_bytes, event.stream});
    CheckSimulated(simcudaWriteTag(device_.Stream(event.stream), made.address, event.size_bytes, event.block + 1),
                   "write");
  }

  void Free(std::size_t k, const TraceEvent& event) {
    const auto it = live_.find(event.block);
    if (it == live_.end()) return;
    const Block block = it->second;
    live_.erase(it);
    if (watcher_ != nullptr) watcher_->Freed(k);
    // A CSV file says nothing of order. Who frees a block on another stream than it was allocated for has waited for
    // that one, or the program would be wrong without us.
    if (trace_.order.empty() && event.stream != block.stream) {
      RecordOn(device_.Stream(block.stream), &handed_over_);
      LetWait(device_.Stream(event.stream), handed_over_);
    }
    CheckSimulated(simcudaReadTag(device_.Stream(event.stream), block.address, block.size_bytes, event.block + 1),
                   "read");
    CheckSimulated(service_->memory().Free(block.address, OrderOf(event)), "free");
  }

  const planner::Trace& trace_;
  const std::size_t look_every_;
  ReplayWatcher* const watcher_;
  SimulatedDevice device_;
  runtime::PeerAccess peers_;  // none: there is one device
  std::unique_ptr<runtime::DeviceService> service_;
  std::unordered_map<std::uint64_t, Block> live_;
  std::unordered_map<std::uint64_t, CUevent> events_;
  CUevent handed_over_ = nullptr;  // between two streams, where the trace does not say how
  std::uint64_t event_ns_ = 0;
};

}  // namespace

std::vector<ReplayResult> ReplayStalloc(const planner::Trace& trace, const StallocReplayOptions& options) {
  const TemporaryFolder temporary;
  const std::string plan_path = options.plan_path.empty() ? temporary.Path("plan") : options.plan_path;
  std::vector<ReplayResult> results;
  for (unsigned run = 1; run <= options.runs; ++run) {
    results.push_back(Replay(trace, options, plan_path, run == options.runs ? options.watcher : nullptr).Run());
    results.back().run = run;
  }
  return results;
}

}  // namespace stalloc::tools
