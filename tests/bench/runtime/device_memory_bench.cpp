// What serving a request costs beneath the hooks: an allocate + free pair of DeviceMemory, online and planned.
//
// The device is simulated; nothing here calls it in the measured loops, so the figures are the allocator's own.
#include <benchmark/benchmark.h>
#include <cuda.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/settings.h"
#include "runtime/pages/peer_access.h"
#include "runtime/service/device_service.h"
#include "simcuda/device.h"
#include "simcuda/driver_table.h"

namespace stalloc::runtime {
namespace {

// One served device of 64 GiB with `planning` or without.
class Served {
 public:
  explicit Served(bool planning) {
    simcuda::Config config;
    config.memory_bytes = std::uint64_t{64} << 30;
    simcuda::Reset(config);
    SIMCUDA_FILL_DRIVER_TABLE(driver_, STALLOC_DRIVER_FUNCTIONS);
    CUdevice device = 0;
    cuInit(0);
    cuDeviceGet(&device, 0);
    cuDevicePrimaryCtxRetain(&context_, device);
    cuCtxSetCurrent(context_);
    Settings settings;
    settings.planning = planning;
    settings.plan_cache.enabled = false;
    DeviceService::Refusal refusal;
    service_ = DeviceService::Make(driver_, settings, device, context_, peers_, &refusal);
    // Something lives, as in a program: 2 000 blocks, every other one freed again, so that free memory is in pieces.
    std::vector<CUdeviceptr> weights;
    for (std::uint64_t i = 0; i < 2000; ++i) weights.push_back(Allocate(512 * (1 + i * 7 % 5000), 1));
    for (std::size_t i = 0; i < weights.size(); i += 2) Free(weights[i]);
  }

  // `stream` names one of several streams, as threads have them; 0 the default one.
  CUdeviceptr Allocate(std::uint64_t size_bytes, std::uint64_t call_site, std::uint64_t stream = 0) {
    const std::uint64_t site = memory().WantsCallSite(size_bytes) ? call_site : 0;
    return memory().Allocate(size_bytes, StreamOf(stream), site).address;
  }
  void Free(CUdeviceptr address, std::uint64_t stream = 0) { memory().Free(address, StreamOf(stream)); }
  DeviceMemory::Order StreamOf(std::uint64_t stream) const {
    return {reinterpret_cast<CUstream>(stream << 4), context_};  // NOLINT(performance-no-int-to-ptr)
  }
  CUcontext context() const { return context_; }
  DeviceMemory& memory() { return service_->memory(); }
  Learner& learner() { return service_->learner(); }

 private:
  DriverApi driver_;
  CUcontext context_ = nullptr;
  PeerAccess peers_;
  std::unique_ptr<DeviceService> service_;
};

void OnlinePair(benchmark::State& state) {
  Served served(false);
  const auto size_bytes = static_cast<std::uint64_t>(state.range(0));
  for (auto _ : state) served.Free(served.Allocate(size_bytes, 1));
}
BENCHMARK(OnlinePair)->Arg(4096)->Arg(1 << 20)->Arg(64 << 20);

// Several threads at once, all on one stream or each on one of its own, with nothing else to do between pairs: as much
// contention as there can be. Time is from one pair to the next of any thread: what does not grow with the threads is
// not lost to waiting. CPU time is a pair's, waiting included.
void OnlinePairOfThreads(benchmark::State& state) {
  static std::unique_ptr<Served> served;
  if (state.thread_index() == 0) served = std::make_unique<Served>(false);
  const std::uint64_t stream = state.range(0) != 0 ? static_cast<std::uint64_t>(state.thread_index()) : 0;
  bool current = false;
  for (auto _ : state) {
    if (!current) cuCtxSetCurrent(served->context()), current = true;
    served->Free(served->Allocate(1 << 20, 1, stream), stream);
  }
}
BENCHMARK(OnlinePairOfThreads)
    ->ArgName("own_streams")
    ->Arg(0)
    ->Arg(1)
    ->Threads(1)
    ->Threads(2)
    ->Threads(4)
    ->UseRealTime();

// A training-like iteration: 64 layers, each an activation that is kept and two temporaries, and the way back. Reports
// the time of a pair.
void Iterations(benchmark::State& state, bool planning) {
  Served served(planning);
  constexpr std::uint64_t kLayers = 64;
  std::vector<CUdeviceptr> kept;
  const auto iteration = [&] {
    for (std::uint64_t i = 0; i < kLayers; ++i) {
      const std::uint64_t unit = (1 + i % 5) << 18;
      const CUdeviceptr first = served.Allocate(unit, 11);
      const CUdeviceptr second = served.Allocate(2 * unit + 512, 12);
      kept.push_back(served.Allocate(3 * unit, 13));
      served.Free(first);
      served.Free(second);
    }
    while (!kept.empty()) {
      const CUdeviceptr gradient = served.Allocate(4096 * kept.size(), 14);
      served.Free(kept.back());
      kept.pop_back();
      served.Free(gradient);
    }
  };
  for (int i = 0; i < 40; ++i) {
    iteration();
    served.learner().Step();
  }
  const MemoryCounters before = served.memory().Counters();
  for (auto _ : state) iteration();
  const MemoryCounters after = served.memory().Counters();
  const auto pairs = static_cast<double>(state.iterations() * 4 * kLayers);
  state.counters["pair"] = benchmark::Counter(pairs, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["planned"] = static_cast<double>(after.planned_requests - before.planned_requests) / pairs;
}
BENCHMARK_CAPTURE(Iterations, planned, true);
BENCHMARK_CAPTURE(Iterations, online, false);

}  // namespace
}  // namespace stalloc::runtime
