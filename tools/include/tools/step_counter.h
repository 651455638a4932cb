// How much of a growing count falls to each training step of a trace.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/trace_problem.h"

namespace stalloc::tools {

class StepCounter {
 public:
  explicit StepCounter(const planner::Trace& trace) : trace_(trace) {}

  // After event k the count stands at `total`.
  void Count(std::size_t k, std::uint64_t total) {
    if (trace_.steps.empty()) return;
    if (by_step_.empty() || trace_.steps[k] != step_) by_step_.push_back(0);
    step_ = trace_.steps[k];
    by_step_.back() += total - std::exchange(total_, total);
  }
  std::vector<std::uint64_t> Take() { return std::move(by_step_); }

 private:
  const planner::Trace& trace_;
  std::vector<std::uint64_t> by_step_;
  std::uint32_t step_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace stalloc::tools
