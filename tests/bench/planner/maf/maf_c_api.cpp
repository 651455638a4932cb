// The suite and the search as plain C functions, so that peers written in Python are run on the very same problems and
// judged by the very same code. Rows of matrices lie one after another.
#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <random>
#include <span>
#include <utility>

#include "maf.h"
#include "planner/many_objective.h"

#define STALLOC_MAF_API extern "C" __attribute__((visibility("default")))

namespace {

using stalloc::bench::MafProblem;
using stalloc::bench::Points;

// Made once for each process; true fronts are costly.
struct Case {
  std::unique_ptr<MafProblem> problem;
  Points front;
};

constexpr std::size_t kFrontPoints = 10000;

const Case& CaseOf(int number, std::size_t objectives) {
  static std::mutex mutex;
  static std::map<std::pair<int, std::size_t>, Case> cases;
  const std::lock_guard lock(mutex);
  Case& entry = cases[{number, objectives}];
  if (!entry.problem) {
    entry.problem = stalloc::bench::MakeMaf(number, objectives);
    entry.front = entry.problem->SampleFront(kFrontPoints);
  }
  return entry;
}

}  // namespace

STALLOC_MAF_API std::size_t maf_variables(int number, std::size_t objectives) {
  return CaseOf(number, objectives).problem->variables();
}

STALLOC_MAF_API std::uint64_t maf_published_evaluations(int number, std::size_t objectives) {
  return CaseOf(number, objectives).problem->PublishedEvaluations();
}

STALLOC_MAF_API void maf_bounds(int number, std::size_t objectives, double* lower, double* upper) {
  const MafProblem& problem = *CaseOf(number, objectives).problem;
  std::copy(problem.lower().begin(), problem.lower().end(), lower);
  std::copy(problem.upper().begin(), problem.upper().end(), upper);
}

STALLOC_MAF_API void maf_repair(int number, std::size_t objectives, std::size_t count, double* variables,
                                std::uint64_t seed) {
  const MafProblem& problem = *CaseOf(number, objectives).problem;
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < count; ++i) {
    problem.Repair({variables + i * problem.variables(), problem.variables()}, random);
  }
}

STALLOC_MAF_API void maf_evaluate(int number, std::size_t objectives, std::size_t count, const double* variables,
                                  double* values) {
  const MafProblem& problem = *CaseOf(number, objectives).problem;
  for (std::size_t i = 0; i < count; ++i) {
    problem.Evaluate({variables + i * problem.variables(), problem.variables()}, {values + i * objectives, objectives});
  }
}

STALLOC_MAF_API double maf_igd(int number, std::size_t objectives, std::size_t count, const double* values) {
  const Points found{objectives, {values, values + count * objectives}};
  return stalloc::bench::InvertedGenerationalDistance(CaseOf(number, objectives).front, found);
}

// Searches and writes the front's objectives to `values`, which has room for 2 x population rows. The rows written.
STALLOC_MAF_API std::size_t maf_search(int number, std::size_t objectives, std::size_t population,
                                       std::uint64_t evaluations, std::uint64_t seed, double* values,
                                       std::uint64_t* first_phase_evaluations) {
  const MafProblem& maf = *CaseOf(number, objectives).problem;
  std::mt19937_64 random(seed);
  stalloc::planner::ManyObjectiveProblem problem;
  problem.lower = maf.lower();
  problem.upper = maf.upper();
  problem.objectives = objectives;
  problem.evaluate = [&](std::span<double> variables, std::span<double> found) {
    maf.Repair(variables, random);
    maf.Evaluate(variables, found);
  };
  stalloc::planner::ManyObjectiveOptions options;
  options.population = population;
  options.evaluations = evaluations;
  options.seed = seed;
  const stalloc::planner::ManyObjectiveResult result = stalloc::planner::SearchByCorners(problem, options);
  for (const auto& solution : result.front)
    values = std::copy(solution.objectives.begin(), solution.objectives.end(), values);
  *first_phase_evaluations = result.first_phase_evaluations;
  return result.front.size();
}
