// The two phases. In both, a generation makes offspring either around the corners or from the whole population:
//
//   first    nine in ten generations around the corners, until the nadir point that they span has hardly moved for
//            50 generations: corners pull the population to the front and fix its extent before anything is spread;
//   second   nine in ten from the whole population, to fill in between; the corners are still polished.
#include "planner/many_objective.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <utility>

#include "angle_selection.h"
#include "objective_table.h"
#include "variation.h"

namespace stalloc::planner {
namespace {

constexpr double kFocus = 0.9;                 // share of generations that do what the phase is for
constexpr std::size_t kSettledFor = 50;        // generations
constexpr double kSettledPerObjective = 1e-3;  // relative change of the nadir point, times the objectives
constexpr double kTail = 0.7;                  // of corner mutations, at the start

class CornerSearch {
 public:
  CornerSearch(const ManyObjectiveProblem& problem, const ManyObjectiveOptions& options)
      : problem_(problem),
        options_(options),
        variation_(problem.lower, problem.upper, options.seed),
        size_(std::max((options.population + problem.objectives - 1) / problem.objectives, std::size_t{2}) *
              problem.objectives) {}

  ManyObjectiveResult Run() {
    Begin();
    bool settled = false;
    while (!Spent()) {
      const bool around_corners = (variation_.Unit() < kFocus) != settled;
      if (around_corners) {
        MutateCorners();
      } else {
        Recombine();
      }
      Select();
      if (!settled && Settled()) {
        settled = true;
        result_.first_phase_evaluations = result_.evaluations;
      }
    }
    if (!settled) result_.first_phase_evaluations = result_.evaluations;
    for (const std::uint32_t row : Table().NonDominated(0)) result_.front.push_back(std::move(population_[row]));
    return std::move(result_);
  }

 private:
  bool Spent() const {
    return options_.stop.stop_requested() || result_.evaluations >= std::max<std::uint64_t>(options_.evaluations, 1);
  }

  void Add(std::vector<double> variables) {
    if (Spent()) return;
    ManyObjectiveSolution solution{std::move(variables), std::vector<double>(problem_.objectives)};
    problem_.evaluate(solution.variables, solution.objectives);
    ++result_.evaluations;
    population_.push_back(std::move(solution));
  }

  void Begin() {
    for (const std::vector<double>& point : options_.start) {
      if (population_.size() < size_) Add(point);
    }
    while (population_.size() < size_ && !Spent()) Add(variation_.RandomPoint());
    Select();
  }

  // As many of each corner, so that they add up to a population.
  void MutateCorners() {
    const double spent = static_cast<double>(result_.evaluations);
    const double whole = static_cast<double>(options_.evaluations + 2 * size_);
    const double tail = kTail * (1 - spent / whole);
    const std::size_t each = std::max<std::size_t>(size_ / corners_.size(), 1);
    for (const std::uint32_t corner : corners_) {
      for (std::size_t k = 0; k < each; ++k) {
        std::vector<double> child = population_[corner].variables;
        variation_.MutateFar(&child, tail);
        Add(std::move(child));
      }
    }
  }

  void Recombine() {
    std::vector<std::uint32_t> mates(population_.size());
    std::iota(mates.begin(), mates.end(), 0);
    variation_.Shuffle(mates);
    for (std::size_t k = 0; k < mates.size(); k += 2) {
      std::vector<double> a = population_[mates[k]].variables;
      std::vector<double> b = population_[mates[(k + 1) % mates.size()]].variables;
      variation_.Cross(&a, &b);
      variation_.Mutate(&a);
      variation_.Mutate(&b);
      Add(std::move(a));
      if (k + 1 < mates.size()) Add(std::move(b));
    }
  }

  ObjectiveTable Table() const {
    ObjectiveTable table(population_.size(), problem_.objectives);
    for (std::size_t row = 0; row < population_.size(); ++row) {
      std::copy(population_[row].objectives.begin(), population_[row].objectives.end(), table[row].begin());
    }
    return table;
  }

  void Select() {
    if (population_.empty()) return;
    Survivors survivors = SelectSurvivors(Table(), size_, options_.resolution);
    std::vector<ManyObjectiveSolution> next;
    corners_.clear();
    for (const std::uint32_t row : survivors.rows) {
      if (std::binary_search(survivors.corners.begin(), survivors.corners.end(), row)) {
        corners_.push_back(static_cast<std::uint32_t>(next.size()));
      }
      next.push_back(std::move(population_[row]));
    }
    population_ = std::move(next);
    nadirs_.push_back(std::move(survivors.nadir));
    if (nadirs_.size() > kSettledFor + 1) nadirs_.pop_front();
  }

  bool Settled() const {
    if (nadirs_.size() <= kSettledFor) return false;
    const std::vector<double>& now = nadirs_.back();
    const std::vector<double>& then = nadirs_.front();
    for (std::size_t k = 0; k < now.size(); ++k) {
      const double limit = kSettledPerObjective * static_cast<double>(now.size()) * std::abs(then[k]);
      if (std::abs(now[k] - then[k]) > limit) return false;
    }
    return true;
  }

  const ManyObjectiveProblem& problem_;
  const ManyObjectiveOptions& options_;
  Variation variation_;
  const std::size_t size_;
  std::vector<ManyObjectiveSolution> population_;
  std::vector<std::uint32_t> corners_;      // in the population
  std::deque<std::vector<double>> nadirs_;  // of the last generations
  ManyObjectiveResult result_;
};

}  // namespace

ManyObjectiveResult SearchByCorners(const ManyObjectiveProblem& problem, const ManyObjectiveOptions& options) {
  return CornerSearch(problem, options).Run();
}

}  // namespace stalloc::planner
