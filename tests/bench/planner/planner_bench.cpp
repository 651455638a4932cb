// How the planner's time and memory grow with the number of requests: one steady step, tiled. Google Benchmark.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <cstdlib>
#include <string>

#include "data.h"
#include "planner/page_plan.h"
#include "planner/solve.h"

namespace stalloc::bench {
namespace {

std::string Folder() {
  const char* const set = std::getenv("STALLOC_SHARED_DATA");
  return set != nullptr ? set : "../shared/data";
}

// One step of the trace named by `filter`, tiled to at least `requests`; empty where the data is absent.
planner::Problem Step(const std::string& filter, std::size_t requests) {
  const std::vector<DataSet> sets = LoadDataSets(Folder(), filter);
  if (sets.empty()) return {};
  planner::Problem problem = sets.front().problem;
  if (problem.requests.size() > requests) problem.requests.resize(requests);
  return Tiled(problem, requests);
}

double PeakMiB() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void SolveTiled(benchmark::State& state, const char* trace) {
  const planner::Problem problem = Step(trace, static_cast<std::size_t>(state.range(0)));
  if (problem.requests.empty()) {
    state.SkipWithError("no data: set STALLOC_SHARED_DATA to its folder");
    return;
  }
  planner::SolveOptions options;
  options.effort = 0;
  planner::Solution solution;
  for (auto _ : state) solution = planner::Solve(problem, options);
  state.counters["requests"] = static_cast<double>(problem.requests.size());
  state.counters["ratio"] =
      static_cast<double>(solution.placement.height_bytes) / static_cast<double>(solution.lower_bound_bytes);
  state.counters["peak_MiB"] = PeakMiB();
}

void PlanPagesOfStep(benchmark::State& state, const char* trace) {
  planner::PageProblem problem;
  const std::vector<DataSet> sets = LoadDataSets(Folder(), trace);
  if (sets.empty()) {
    state.SkipWithError("no data: set STALLOC_SHARED_DATA to its folder");
    return;
  }
  problem.problem = sets.front().problem;
  planner::PagePlan plan;
  planner::SolveOptions options;
  options.time_limit = std::chrono::seconds(1);
  for (auto _ : state) plan = planner::PlanPages(problem, options);
  state.counters["pages"] = static_cast<double>(plan.page_count);
  state.counters["bound"] = static_cast<double>(plan.lower_bound_pages);
  state.counters["contiguous"] = static_cast<double>(plan.contiguous_pages);
  state.counters["all_paged"] = static_cast<double>(plan.paged_pages);
  state.counters["handles"] = static_cast<double>(plan.handles_to_map);
}

BENCHMARK_CAPTURE(SolveTiled, vpp, "training_traces/vpp")
    ->RangeMultiplier(10)
    ->Range(1000, 1000000)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(SolveTiled, moe, "training_traces/moe")
    ->RangeMultiplier(10)
    ->Range(1000, 1000000)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

BENCHMARK_CAPTURE(PlanPagesOfStep, gpt2, "training_traces/gpt2")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(PlanPagesOfStep, llama_rc, "training_traces/llama-rc")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(PlanPagesOfStep, moe, "training_traces/moe")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(PlanPagesOfStep, vpp, "training_traces/vpp")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(PlanPagesOfStep, resnet50, "training_traces/resnet50")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(PlanPagesOfStep, bert_var, "training_traces/bert-var")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(PlanPagesOfStep, eval_mix, "training_traces/eval-mix")->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace stalloc::bench

BENCHMARK_MAIN();
