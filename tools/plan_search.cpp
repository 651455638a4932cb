#include "tools/plan_search.h"

#include "planner/page_plan.h"
#include "planner/solve.h"
#include "planner/validate.h"
#include "tools/progress_line.h"

namespace stalloc::tools {
namespace {

// Runs `search` and says how long it took, in seconds.
template <typename Search>
double Timed(const Search& search) {
  const auto start = std::chrono::steady_clock::now();
  search();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

PlanAnswer SearchPlan(const PlanningInput& input, const PlanSearch& search) {
  ProgressLine line;
  planner::SolveOptions solve;
  solve.seed = search.seed;
  solve.threads = search.threads;
  solve.time_limit = search.time_limit;
  solve.stop = search.stop;
  solve.progress = [&](const planner::SolveProgress& progress) { line.Report(progress); };

  PlanAnswer answer;
  answer.seconds = Timed([&] { answer.solution = planner::Solve(input.problem, solve); });
  // The capacity is what the exit code is about; the placement itself is judged without it.
  planner::Problem unlimited = input.problem;
  unlimited.capacity_bytes = planner::kUnlimited;
  answer.violation = planner::FindViolation(unlimited, answer.solution.placement);
  const bool has_plan = answer.solution.status != planner::Solution::Status::kInfeasible &&
                        answer.solution.status != planner::Solution::Status::kMalformed;
  if (input.from_trace && has_plan) {
    planner::PageProblem pages;
    pages.problem = input.problem;
    answer.pages_seconds = Timed([&] { answer.pages = planner::PlanPages(pages, solve); });
  }
  return answer;
}

}  // namespace stalloc::tools
