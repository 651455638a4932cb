// Many-objective search by corner solutions (MaOEA-CS): trade-offs between objectives that cannot all be best at once.
// Knows numbers only: nothing of memory, requests or plans.
//
// Source: X. Cai, H. Sun, C. Zhu, Z. Li, Q. Zhang, "Locating the Boundaries of Pareto Fronts: A Many-Objective
// Evolutionary Algorithm Based on Corner Solution Search", arXiv 1806.02967, winner of the CEC 2017 competition on
// many-objective optimisation; the parameters are those of the authors' entry. How the two phases go is told in
// many_objective.cpp, what a corner is in corner_solutions.h, who survives in angle_selection.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <vector>

namespace stalloc::planner {

// Minimise every objective over a box.
struct ManyObjectiveProblem {
  std::vector<double> lower;   // one for each variable
  std::vector<double> upper;   // >= lower
  std::size_t objectives = 0;  // >= 2
  // Fills in the objectives, finite, of `variables`, which lie in the box. It may move the variables within the box to
  // the point whose objectives it gives (a repair); search goes on from there. Called on the calling thread.
  std::function<void(std::span<double> variables, std::span<double> objectives)> evaluate{};
};

struct ManyObjectiveOptions {
  std::size_t population = 200;              // rounded up to a multiple of the objectives, at least twice as many
  std::uint64_t evaluations = 100'000;       // never exceeded; at least the population's first points are evaluated
  std::uint64_t seed = 1;                    // same problem, options and seed: same result, on every machine
  double resolution = 1e-4;                  // objectives are compared as multiples of this; 0: exactly
  std::vector<std::vector<double>> start{};  // points to begin with, the rest is random; at most `population` are used
  std::stop_token stop{};                    // asked for before each evaluation
};

struct ManyObjectiveSolution {
  std::vector<double> variables;
  std::vector<double> objectives;
};

struct ManyObjectiveResult {
  std::vector<ManyObjectiveSolution> front;  // of the last population those that no other of it dominates
  std::uint64_t evaluations = 0;
  std::uint64_t first_phase_evaluations = 0;  // when the corners had settled; == evaluations: they never did
};

// O(population^2 x objectives) for each `population` evaluations, besides the evaluations themselves. Thread-safe.
ManyObjectiveResult SearchByCorners(const ManyObjectiveProblem& problem, const ManyObjectiveOptions& options);

// Whether a is at least as good as b in every objective and better in one.
bool Dominates(std::span<const double> a, std::span<const double> b);

}  // namespace stalloc::planner
