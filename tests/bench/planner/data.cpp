#include "data.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <random>

#include "planner/csv.h"

namespace stalloc::bench {

std::vector<DataSet> LoadDataSets(const std::string& folder, const std::string& filter) {
  std::vector<DataSet> sets;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (path.find(".csv") == std::string::npos) continue;
    std::string name = entry.path().parent_path().filename().string() + "/" + entry.path().filename().string();
    name = name.substr(0, name.find(".csv"));
    if (name.find(filter) == std::string::npos) continue;
    if (const auto kind = planner::DetectCsv(path); !kind) {
      std::cerr << kind.error().Text() << '\n';
    } else if (*kind == planner::CsvKind::kLifetimes) {
      auto table = planner::ReadLifetimeCsv(path);
      if (table) sets.push_back({name, std::move(table->problem)});
    } else if (auto trace = planner::ReadEventCsv(path)) {
      if (const auto step = planner::WindowOfStep(*trace))
        sets.push_back({name, planner::ProblemOfWindow(trace->events, *step).problem});
    }
  }
  std::sort(sets.begin(), sets.end(), [](const DataSet& a, const DataSet& b) { return a.name < b.name; });
  return sets;
}

planner::Problem Tiled(const planner::Problem& step, std::size_t requests) {
  planner::Time length = 0;
  for (const planner::Request& request : step.requests) length = std::max(length, request.end);
  planner::Problem tiled = step;
  tiled.requests.clear();
  // What spans the whole step is there once, for all the time; the rest comes again in every step.
  std::vector<planner::Request> repeated;
  for (const planner::Request& request : step.requests) {
    (request.begin == 0 && request.end == length ? tiled.requests : repeated).push_back(request);
  }
  planner::Time at = 0;
  const std::size_t standing = tiled.requests.size();
  while (tiled.requests.size() < requests && !repeated.empty()) {
    for (planner::Request request : repeated) {
      request.begin += at;
      request.end += at;
      tiled.requests.push_back(request);
    }
    at += length;
  }
  for (std::size_t i = 0; i < standing; ++i) tiled.requests[i].end = std::max(at, length);
  return tiled;
}

planner::Problem OnStreams(const planner::Problem& step, std::uint32_t streams, planner::Time between) {
  planner::Problem problem = step;
  for (const planner::Request& request : problem.requests) problem.period = std::max(problem.period, request.end);
  std::mt19937_64 random(streams);
  std::uint32_t stream = 0;
  for (planner::Request& request : problem.requests) {
    if (random() % 16 == 0) stream = random() % 2 == 0 ? 0 : static_cast<std::uint32_t>(random() % streams);
    request.stream = stream;
  }
  // The moments at which one stream waits for another, as differently spaced as `between` says on average.
  std::vector<std::vector<planner::Time>> waits(std::size_t{streams} * streams);
  for (std::vector<planner::Time>& times : waits) {
    for (planner::Time at = 0; at < 2 * problem.period;) {
      at += 1 + static_cast<planner::Time>(random() % static_cast<std::uint64_t>(2 * between));
      times.push_back(at);
    }
  }
  problem.streams = streams;
  for (const planner::Request& request : problem.requests) {
    for (std::uint32_t q = 0; q < streams; ++q) {
      const std::vector<planner::Time>& times = waits[request.stream * streams + q];
      const auto wait = std::lower_bound(times.begin(), times.end(), request.end);
      const planner::Time never = request.begin + problem.period;
      problem.reusable.push_back(q == request.stream ? request.end
                                                     : std::min(never, wait == times.end() ? never : *wait));
    }
  }
  return problem;
}

}  // namespace stalloc::bench
