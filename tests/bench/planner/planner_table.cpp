// Prints, for every data set, how close to the lower bound the planner comes and how long it takes.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "data.h"
#include "planner/solve.h"
#include "planner/stream_order.h"

int main(int argc, char** argv) {
  using namespace stalloc;
  CLI::App app("Height over lower bound and time of the planner, as a Markdown table.");
  const char* const set = std::getenv("STALLOC_SHARED_DATA");
  std::string folder = set != nullptr ? set : "../shared/data";
  std::string filter;
  double seconds = 1;
  unsigned threads = 2;
  planner::Bytes capacity = planner::kUnlimited;
  std::uint64_t seed = 1;
  std::size_t tile = 0;
  std::uint32_t streams = 0;
  planner::Time between = 100;
  bool held = false;
  std::optional<double> effort;
  app.add_option("--data", folder, "folder of the data sets");
  app.add_option("--filter", filter, "only sets whose name contains this");
  app.add_option("--seconds", seconds, "deadline of each");
  app.add_option("--threads", threads, "threads of each");
  app.add_option("--capacity", capacity, "stop as soon as the height is not above this");
  app.add_option("--seed", seed, "seed of the search");
  app.add_option("--tile", tile, "repeat each until it has so many requests");
  app.add_option("--streams", streams, "deal the requests out to so many streams")->check(CLI::Range(1, 64));
  app.add_option("--between", between, "with --streams: events between two waits of one stream for another")
      ->check(CLI::PositiveNumber);
  app.add_flag("--held", held, "with --streams: plan as if no request were free before it is for all streams");
  app.add_option("--effort", effort, "scales the search; without --seconds")->excludes("--seconds");
  CLI11_PARSE(app, argc, argv);

  std::printf("| data | requests | lower bound | height | ratio | seconds | method |\n|---|---|---|---|---|---|---|\n");
  for (bench::DataSet& data : bench::LoadDataSets(folder, filter)) {
    if (tile > 0) data.problem = bench::Tiled(data.problem, tile);
    if (streams > 0) data.problem = bench::OnStreams(data.problem, streams, between);
    if (held) data.problem = planner::HeldForAllStreams(data.problem);
    data.problem.capacity_bytes = capacity;
    planner::SolveOptions options;
    if (effort) {
      options.effort = *effort;
    } else {
      options.time_limit = std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
    }
    options.threads = threads;
    options.seed = seed;
    const auto begin = std::chrono::steady_clock::now();
    const planner::Solution solution = planner::Solve(data.problem, options);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (!solution.error.empty()) {
      std::printf("| %s | error: %s |\n", data.name.c_str(), solution.error.c_str());
      continue;
    }
    const double ratio = static_cast<double>(solution.placement.height_bytes) /
                         static_cast<double>(std::max<planner::Bytes>(solution.lower_bound_bytes, 1));
    std::printf("| %s | %zu | %llu | %llu | %.5f | %.3f | %s%s |\n", data.name.c_str(), data.problem.requests.size(),
                static_cast<unsigned long long>(solution.lower_bound_bytes),
                static_cast<unsigned long long>(solution.placement.height_bytes), ratio, elapsed.count(),
                solution.method.c_str(),
                solution.status == planner::Solution::Status::kInfeasible ? " (above the capacity)" : "");
    std::fflush(stdout);
  }
}
