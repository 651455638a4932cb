#include "data.h"

#include <algorithm>
#include <filesystem>
#include <iostream>

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
      if (auto step = planner::ProblemOfStep(*trace)) sets.push_back({name, std::move(step->problem)});
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

}  // namespace stalloc::bench
