// What a call site costs, by the depth of the stack: where the thread has seen the stack before, where each has to be
// walked, and with each unwinder for the walk alone.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <thread>

#include "call_site/deep_calls.h"
#include "call_sites/unwinder.h"
#include "runtime/call_sites/call_site.h"

namespace stalloc::runtime {
namespace {

LoadedUnwinder measured;

std::uint64_t WalkOnly(int depth, std::uint64_t /*hint*/) {
  void* addresses[kMaxStackDepth];
  const int count = measured.walk(addresses, depth);
  benchmark::DoNotOptimize(addresses);
  return static_cast<std::uint64_t>(count);
}

void CallSite(benchmark::State& state) {
  LoadUnwinder();
  const int depth = static_cast<int>(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(CallThrough(depth, &CallSiteHash, depth));
}

// Sizes that never come twice, as where sequence lengths or experts change them.
std::uint64_t HashOfAnySize(int depth, std::uint64_t /*hint*/) {
  static std::uint64_t hint = 0;
  return CallSiteHash(depth, ++hint);
}

void CallSiteOfAnySize(benchmark::State& state) {
  LoadUnwinder();
  const int depth = static_cast<int>(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(CallThrough(depth, &HashOfAnySize, depth));
}

// As if no two stacks were alike: in a thread that came too late to have a table of known ones.
void CallSiteByWalk(benchmark::State& state) {
  LoadUnwinder();
  constexpr int kMoreThanTables = 64;
  for (static int started = 0; started < kMoreThanTables; ++started) std::thread([] { CallSiteHash(1); }).join();
  const int depth = static_cast<int>(state.range(0));
  std::thread([&] {
    for (auto _ : state) benchmark::DoNotOptimize(CallThrough(depth, &CallSiteHash, depth));
  }).join();
}

void Walk(benchmark::State& state, LoadedUnwinder (*find)() noexcept) {
  measured = find();
  if (measured.walk == nullptr) return state.SkipWithError("the library is not installed");
  const int depth = static_cast<int>(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(CallThrough(depth, &WalkOnly, depth));
}

// 24 frames, which is the default, of a deeper stack.
void CallSiteOfDeepStack(benchmark::State& state) {
  LoadUnwinder();
  const int frames = static_cast<int>(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(CallThrough(frames, &CallSiteHash, 24));
}

BENCHMARK(CallSite)->Arg(5)->Arg(10)->Arg(20)->Arg(24)->Arg(50);
BENCHMARK(CallSiteOfAnySize)->Arg(5)->Arg(10)->Arg(20)->Arg(24)->Arg(50);
BENCHMARK(CallSiteByWalk)->Arg(5)->Arg(10)->Arg(20)->Arg(24)->Arg(50)->UseRealTime();
BENCHMARK(CallSiteOfDeepStack)->Arg(60);
BENCHMARK_CAPTURE(Walk, libunwind, &FindLibunwind)->Arg(5)->Arg(20)->Arg(50);
BENCHMARK_CAPTURE(Walk, libgcc, &FindLibgcc)->Arg(5)->Arg(20)->Arg(50);

}  // namespace
}  // namespace stalloc::runtime
