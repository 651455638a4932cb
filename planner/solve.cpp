#include "planner/solve.h"

#include <utility>

#include "greedy.h"
#include "instance.h"
#include "planner/lower_bound.h"
#include "planner/problem_check.h"
#include "planner/validate.h"

namespace stalloc::planner {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Solution Solve(const Problem& problem, const SolveOptions& options) {
  Solution solution;
  if (std::optional<std::string> reason = FindMalformed(problem)) {
    solution.error = std::move(*reason);
    return solution;
  }
  const Clock::time_point begin = Clock::now();
  const Instance instance = MakeInstance(problem);
  solution.lower_bound_bytes = LowerBound(problem);

  Occupancy occupancy(instance);
  std::optional<Packing> best;
  for (const OrderRule rule : kOrderRules) {
    for (const Fit fit : {Fit::kFirst, Fit::kBest}) {
      if (best && (best->height <= instance.bound || options.stop.stop_requested())) break;
      if (best && options.time_limit && Clock::now() - begin > *options.time_limit) break;
      std::optional<Packing> packing =
          PlaceInOrder(instance, MakeOrder(instance, rule), fit, best ? best->height - 1 : kUnlimited, occupancy);
      if (!packing) continue;
      best = std::move(packing);
      best->method = std::string(NameOf(rule)) + (fit == Fit::kFirst ? " first fit" : " best fit");
    }
  }
  solution.placement = MakePlacement(problem, std::move(best->offsets));
  solution.method = std::move(best->method);
  Problem unlimited = problem;
  unlimited.capacity_bytes = kUnlimited;
  if (std::optional<std::string> violation = FindViolation(unlimited, solution.placement)) {
    solution.error = "internal error: " + *violation;
    solution.placement = {};
    return solution;
  }
  if (solution.placement.height_bytes > problem.capacity_bytes) {
    solution.status = Solution::Status::kInfeasible;
    solution.proven = solution.lower_bound_bytes > problem.capacity_bytes;
  } else {
    solution.status = solution.placement.height_bytes == solution.lower_bound_bytes ? Solution::Status::kOptimal
                                                                                    : Solution::Status::kFeasible;
  }
  return solution;
}

}  // namespace stalloc::planner
