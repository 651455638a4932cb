// FrontSearch: looks for a choice of plans on a thread of its own, which runs only when nobody else wants the
// processor.
//
// The thread calls the planner and nothing else: no driver call, no lock of the runtime. Nobody ever waits for it: what
// it works on is its own, and where its result is no longer wanted it is asked to stop and left to itself, which takes
// it one placement of the requests (tens of milliseconds of its time). One caller at a time, but for End.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>

#include "planner/plan_front.h"

namespace stalloc::runtime {

class FrontSearch {
 public:
  FrontSearch() = default;
  ~FrontSearch() { End(); }
  FrontSearch(const FrontSearch&) = delete;
  FrontSearch& operator=(const FrontSearch&) = delete;

  // Begins a search in place of the one under way, if any. `time_limit` is of all of it.
  void Begin(planner::PageProblem problem, std::chrono::milliseconds time_limit);

  // What was found, once; nullopt: nothing is ready.
  std::optional<planner::PlanFront> Take();

  bool searching() const { return work_ != nullptr; }

  // The result of the search under way is not wanted.
  void Cancel() noexcept;

  // No result will be wanted any more. Any thread, at any time; does not wait.
  void End() noexcept;

 private:
  struct Work;
  std::shared_ptr<Work> work_;
  std::mutex mutex_;  // guards the two below
  bool ended_ = false;
  std::stop_source stop_{std::nostopstate};
};

}  // namespace stalloc::runtime
