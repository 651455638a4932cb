// What taking an event down costs the thread that makes the request.
#include <benchmark/benchmark.h>

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

void Record(benchmark::State& state, Recorder& (*which)()) {
  Recorder& recorder = which();
  planner::TraceEvent event;
  for (auto _ : state) {
    event.sequence = recorder.NextSequence();
    recorder.Record(event);
  }
  const Recorder::Counts counts = recorder.counts();
  state.counters["dropped"] = static_cast<double>(counts.dropped);
}

BENCHMARK_CAPTURE(Record, sink, &WithSink)->Threads(1)->Threads(2);
BENCHMARK_CAPTURE(Record, file, &WithFile);

}  // namespace
}  // namespace stalloc::runtime
