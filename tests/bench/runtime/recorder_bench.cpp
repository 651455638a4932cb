// What taking an event down costs the thread that makes the request.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <thread>

#include "runtime/trace/recorder.h"

namespace stalloc::runtime {
namespace {

Recorder& ToNowhere() {
  static Recorder* const recorder = [] {
    auto* made = new Recorder;
    made->Start("/dev/null");
    return made;
  }();
  return *recorder;
}

// An iteration is a quarter of a buffer, which the background thread empties before the next: what is measured is the
// recording thread alone.
void Record(benchmark::State& state) {
  constexpr std::int64_t kEvents = Recorder::kEventsPerThread / 4;
  Recorder& recorder = ToNowhere();
  const auto taken = [&] { return recorder.counts().delivered + recorder.counts().dropped; };
  const std::uint64_t dropped = recorder.counts().dropped;
  std::uint64_t recorded = taken();
  planner::TraceEvent event;
  for (auto _ : state) {
    for (std::int64_t i = 0; i < kEvents; ++i) {
      event.sequence = recorder.NextSequence();
      recorder.Record(event);
    }
    state.PauseTiming();
    recorded += kEvents;
    while (taken() < recorded) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    state.ResumeTiming();
  }
  state.counters["each"] = benchmark::Counter(static_cast<double>(state.iterations() * kEvents),
                                              benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["dropped"] = static_cast<double>(recorder.counts().dropped - dropped);
}

BENCHMARK(Record);

}  // namespace
}  // namespace stalloc::runtime
