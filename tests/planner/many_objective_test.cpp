#include "planner/many_objective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace stalloc::planner {
namespace {

// f_k = distance to the k-th corner of a simplex in as many dimensions, squared: the simplex itself is optimal.
ManyObjectiveProblem Simplex(std::size_t objectives, std::size_t idle_variables) {
  ManyObjectiveProblem problem;
  problem.lower.assign(objectives + idle_variables, -1);
  problem.upper.assign(objectives + idle_variables, 2);
  problem.objectives = objectives;
  problem.evaluate = [objectives](std::span<double> x, std::span<double> f) {
    for (std::size_t k = 0; k < objectives; ++k) {
      f[k] = 0;
      for (std::size_t i = 0; i < x.size(); ++i) f[k] += (x[i] - (i == k)) * (x[i] - (i == k));
    }
  };
  return problem;
}

bool Same(const ManyObjectiveResult& a, const ManyObjectiveResult& b) {
  return std::equal(a.front.begin(), a.front.end(), b.front.begin(), b.front.end(),
                    [](const auto& x, const auto& y) { return x.variables == y.variables; });
}

TEST(ManyObjective, ComesToTheFrontAndSpreadsOverIt) {
  const ManyObjectiveProblem problem = Simplex(5, 5);
  const ManyObjectiveResult result = SearchByCorners(problem, {.population = 100, .evaluations = 20'000, .seed = 3});
  EXPECT_GE(result.front.size(), 90u);
  EXPECT_LT(result.first_phase_evaluations, result.evaluations) << "the corners settle";
  std::vector<double> best(5, 100);
  double mean_gap = 0;
  for (const ManyObjectiveSolution& solution : result.front) {
    double gap = 0;  // from the simplex: what is negative, idle variables, and the sum that is not one
    for (std::size_t i = 0; i < 10; ++i) {
      const double x = solution.variables[i];
      gap += std::abs(i < 5 ? std::min(x, 0.0) : x);
    }
    const double sum = std::accumulate(solution.variables.begin(), solution.variables.begin() + 5, 0.0);
    mean_gap += (gap + std::abs(sum - 1)) / static_cast<double>(result.front.size());
    for (std::size_t k = 0; k < 5; ++k) best[k] = std::min(best[k], solution.objectives[k]);
  }
  EXPECT_LT(mean_gap, 0.5) << "a random point's is about 8";
  for (const double value : best) EXPECT_LT(value, 0.01) << "each corner of the front is found";
}

TEST(ManyObjective, GivesOnlyPointsThatNoOtherDominatesWithTheirOwnObjectives) {
  const ManyObjectiveProblem problem = Simplex(3, 2);
  const ManyObjectiveResult result = SearchByCorners(problem, {.population = 30, .evaluations = 900});
  for (const ManyObjectiveSolution& a : result.front) {
    std::vector<double> variables = a.variables;
    std::vector<double> again(3);
    problem.evaluate(variables, again);
    EXPECT_EQ(again, a.objectives);
    for (std::size_t i = 0; i < variables.size(); ++i) {
      EXPECT_GE(variables[i], problem.lower[i]);
      EXPECT_LE(variables[i], problem.upper[i]);
    }
    for (const ManyObjectiveSolution& b : result.front) EXPECT_FALSE(Dominates(b.objectives, a.objectives));
  }
}

TEST(ManyObjective, IsTheSameForTheSameSeedAlone) {
  const ManyObjectiveProblem problem = Simplex(4, 0);
  const auto search = [&](std::uint64_t seed) {
    return SearchByCorners(problem, {.population = 20, .evaluations = 2000, .seed = seed});
  };
  EXPECT_TRUE(Same(search(1), search(1)));
  EXPECT_FALSE(Same(search(1), search(2)));
}

TEST(ManyObjective, SpendsItsBudgetAndNoMore) {
  for (const std::uint64_t budget : {1u, 7u, 50u, 51u, 777u}) {
    ManyObjectiveProblem problem = Simplex(3, 1);
    std::uint64_t calls = 0;
    problem.evaluate = [&calls, inner = problem.evaluate](std::span<double> x, std::span<double> f) {
      ++calls;
      inner(x, f);
    };
    const ManyObjectiveResult result = SearchByCorners(problem, {.population = 50, .evaluations = budget});
    EXPECT_EQ(calls, budget);
    EXPECT_EQ(result.evaluations, budget);
    EXPECT_FALSE(result.front.empty());
  }
}

TEST(ManyObjective, StopsWhenAskedTo) {
  std::stop_source stop;
  ManyObjectiveProblem problem = Simplex(3, 1);
  std::uint64_t calls = 0;
  problem.evaluate = [&, inner = problem.evaluate](std::span<double> x, std::span<double> f) {
    if (++calls == 70) stop.request_stop();
    inner(x, f);
  };
  EXPECT_EQ(SearchByCorners(problem, {.population = 50, .stop = stop.get_token()}).evaluations, 70u);
}

TEST(ManyObjective, BeginsWithWhatIsKnownAndKeepsWhatIsBest) {
  const ManyObjectiveProblem problem = Simplex(3, 3);
  ManyObjectiveOptions options{.population = 12, .evaluations = 600};
  options.start = {{1, 0, 0, 0, 0, 0}, {0, 1, 0, 0, 0, 0}, {0, 0, 1, 0, 0, 0}};
  const ManyObjectiveResult result = SearchByCorners(problem, options);
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_TRUE(std::any_of(result.front.begin(), result.front.end(), [&](const ManyObjectiveSolution& solution) {
      return solution.objectives[k] <= 1e-4;
    })) << "the corner that was known is still there";
  }
}

TEST(ManyObjective, GoesOnFromWhereARepairMovedAPoint) {
  // Allowed are whole numbers alone.
  ManyObjectiveProblem problem = Simplex(3, 0);
  problem.evaluate = [inner = problem.evaluate](std::span<double> x, std::span<double> f) {
    for (double& value : x) value = std::round(value);
    inner(x, f);
  };
  const ManyObjectiveResult result = SearchByCorners(problem, {.population = 30, .evaluations = 3000});
  std::set<std::vector<double>> found;
  for (const ManyObjectiveSolution& solution : result.front) found.insert(solution.variables);
  EXPECT_EQ(found, (std::set<std::vector<double>>{{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {1, 0, 0}}));
}

TEST(ManyObjective, TakesObjectivesThatDoNotConflict) {
  ManyObjectiveProblem problem;
  problem.lower = {0};
  problem.upper = {1};
  problem.objectives = 4;
  problem.evaluate = [](std::span<double> x, std::span<double> f) { std::fill(f.begin(), f.end(), x[0]); };
  const ManyObjectiveResult result = SearchByCorners(problem, {.population = 8, .evaluations = 400, .resolution = 0});
  ASSERT_FALSE(result.front.empty());
  EXPECT_LT(result.front[0].objectives[0], 1e-3);
}

}  // namespace
}  // namespace stalloc::planner
