// What taking an event down costs the thread that makes the request.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <span>
#include <string>

#include "runtime/recorder.h"

namespace stalloc::runtime {
namespace {

Recorder& WithSink() {
  static Recorder* const recorder = [] {
    auto* made = new Recorder;
    made->SetSink([](std::span<const planner::TraceEvent> events) { benchmark::DoNotOptimize(events.data()); });
    made->Start();
    return made;
  }();
  return *recorder;
}

Recorder& WithFile() {
  static Recorder* const recorder = [] {
    auto* made = new Recorder;
    made->Start("/dev/null");
    return made;
  }();
  return *recorder;
}

// An iteration is a quarter of a buffer, which the background thread empties before the next: what is measured is the
// recording thread alone.
void Record(benchmark::State& state, Recorder& (*which)()) {
  constexpr std::int64_t kEvents = Recorder::kEventsPerThread / 4;
  Recorder& recorder = which();
  const std::uint64_t dropped = recorder.counts().dropped;
  planner::TraceEvent event;
  for (auto _ : state) {
    for (std::int64_t i = 0; i < kEvents; ++i) {
      event.sequence = recorder.NextSequence();
      recorder.Record(event);
    }
    state.PauseTiming();
    recorder.Flush();
    state.ResumeTiming();
  }
  state.counters["each"] = benchmark::Counter(static_cast<double>(state.iterations() * kEvents),
                                              benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["dropped"] = static_cast<double>(recorder.counts().dropped - dropped);
}

BENCHMARK_CAPTURE(Record, sink, &WithSink);
BENCHMARK_CAPTURE(Record, file, &WithFile);

}  // namespace
}  // namespace stalloc::runtime
