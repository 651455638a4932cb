// One line on the terminal that says how a search goes, overwritten as it goes on and gone in the end.
//
// Drawn on standard error, and only if that is a terminal and the search takes longer than a second. A thread of its
// own draws it, so that it moves also while the search has nothing to report.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "planner/solve.h"

namespace stalloc::tools {

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // The state of the search from now on. Any thread.
  void Report(const planner::SolveProgress& progress);

 private:
  void Draw(std::stop_token stop);

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::optional<planner::SolveProgress> latest_;
  std::jthread drawer_;  // last: it uses the others
};

}  // namespace stalloc::tools
