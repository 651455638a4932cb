#include "runtime/pages/front_search.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <thread>
#include <utility>

#include "base/signals_blocked.h"

namespace stalloc::runtime {

namespace {

// More give little: most of a front's worth are its ends, which the single-objective solvers find first.
constexpr std::uint64_t kEvaluations = 60;
constexpr std::size_t kChoices = 16;

// A thread that has made itself idle cannot undo it without privileges, so this one does nothing else.
void YieldToEverybody() {
  const sched_param none{};
  if (pthread_setschedparam(pthread_self(), SCHED_IDLE, &none) != 0)
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 19);
}

}  // namespace

struct FrontSearch::Work {
  planner::PageProblem problem;
  planner::PlanFront front;
  std::atomic<bool> done{false};
};

void FrontSearch::Begin(planner::PageProblem problem, std::chrono::milliseconds time_limit) {
  Cancel();
  auto work = std::make_shared<Work>();
  work->problem = std::move(problem);
  std::stop_token stop;
  {
    std::lock_guard lock(mutex_);
    if (ended_) return;
    stop_ = std::stop_source{};
    stop = stop_.get_token();
  }
  try {
    const SignalsBlocked blocked;
    std::thread([work, stop, time_limit] {
      pthread_setname_np(pthread_self(), "stalloc-plan");
      YieldToEverybody();
      planner::PlanFrontOptions options;
      options.evaluations = kEvaluations;
      options.max_choices = kChoices;
      options.time_limit = time_limit;
      options.stop = stop;
      try {
        if (!stop.stop_requested()) work->front = planner::SearchPlanFront(work->problem, options);
      } catch (const std::exception&) {  // the host is short of memory: there is no choice then
      }
      work->done.store(true, std::memory_order_release);
    }).detach();
    work_ = std::move(work);
  } catch (const std::exception&) {  // no thread: no choice
  }
}

std::optional<planner::PlanFront> FrontSearch::Take() {
  if (!work_ || !work_->done.load(std::memory_order_acquire)) return std::nullopt;
  planner::PlanFront front = std::move(work_->front);
  work_.reset();
  return front;
}

void FrontSearch::Cancel() noexcept {
  work_.reset();
  std::lock_guard lock(mutex_);
  stop_.request_stop();
}

void FrontSearch::End() noexcept {
  std::lock_guard lock(mutex_);
  ended_ = true;
  stop_.request_stop();
}

}  // namespace stalloc::runtime
