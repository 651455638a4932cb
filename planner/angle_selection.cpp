#include "angle_selection.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <span>

#include "corner_solutions.h"

namespace stalloc::planner {
namespace {

using Rows = std::vector<std::uint32_t>;

Rows Without(const Rows& rows, const Rows& taken) {
  Rows rest;
  std::set_difference(rows.begin(), rows.end(), taken.begin(), taken.end(), std::back_inserter(rest));
  return rest;
}

// Appends from `candidates` those nearest to the ideal point until there are `count`.
void FillByDistance(const ObjectiveTable& table, const std::vector<double>& ideal, Rows candidates, std::size_t count,
                    Rows* rows) {
  std::vector<double> squares(table.rows(), 0);
  for (const std::uint32_t row : candidates) {
    for (std::size_t k = 0; k < ideal.size(); ++k) {
      squares[row] += (table[row][k] - ideal[k]) * (table[row][k] - ideal[k]);
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return squares[a] < squares[b]; });
  const std::size_t wanted = std::min(candidates.size(), count - rows->size());
  rows->insert(rows->end(), candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(wanted));
}

// Directions from the ideal point, of length one, in units of the nadir point.
ObjectiveTable Directions(const ObjectiveTable& table, const Rows& rows, const std::vector<double>& ideal,
                          const std::vector<double>& nadir) {
  ObjectiveTable directions(rows.size(), table.objectives());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<double> direction = directions[i];
    double squares = 0;
    for (std::size_t k = 0; k < ideal.size(); ++k) {
      const double range = nadir[k] - ideal[k];
      direction[k] = (table[rows[i]][k] - ideal[k]) / (range > 0 ? range : 1);
      squares += direction[k] * direction[k];
    }
    if (squares == 0) continue;  // the ideal point itself: at a right angle to everything
    const double scale = 1 / std::sqrt(squares);
    for (double& value : direction) value *= scale;
  }
  return directions;
}

Rows SpreadByAngle(const ObjectiveTable& table, const Rows& candidates, const Survivors& survivors,
                   const std::vector<double>& ideal, std::size_t count) {
  const ObjectiveTable directions = Directions(table, candidates, ideal, survivors.nadir);
  std::vector<double> cosine(candidates.size(), -1);  // of the smallest angle to a chosen one; 2: chosen itself
  Rows chosen;
  const auto choose = [&](std::size_t index) {
    chosen.push_back(candidates[index]);
    cosine[index] = 2;
    const std::span<const double> from = directions[index];
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const std::span<const double> to = directions[i];
      cosine[i] = std::max(cosine[i], std::inner_product(from.begin(), from.end(), to.begin(), 0.0));
    }
  };
  for (std::size_t i = 0; i < candidates.size() && chosen.size() < count; ++i) {
    if (std::binary_search(survivors.corners.begin(), survivors.corners.end(), candidates[i])) choose(i);
  }
  while (chosen.size() < count) {
    choose(static_cast<std::size_t>(std::min_element(cosine.begin(), cosine.end()) - cosine.begin()));
  }
  return chosen;
}

}  // namespace

Survivors SelectSurvivors(const ObjectiveTable& table, std::size_t count, double resolution) {
  const std::vector<double> ideal = table.Ideal();
  const Rows best = table.NonDominated(resolution);
  Survivors survivors;
  survivors.corners = SelectCorners(table, best, ideal);
  survivors.nadir = NadirOf(table, survivors.corners);
  if (best.size() <= count) {
    survivors.rows = best;
    Rows all(table.rows());
    std::iota(all.begin(), all.end(), 0);
    FillByDistance(table, ideal, Without(all, best), count, &survivors.rows);
    return survivors;
  }
  Rows inside;
  std::copy_if(best.begin(), best.end(), std::back_inserter(inside), [&](std::uint32_t row) {
    const std::span<const double> values = table[row];
    return std::equal(values.begin(), values.end(), survivors.nadir.begin(), std::less_equal<>());
  });
  if (inside.size() > count) {
    survivors.rows = SpreadByAngle(table, inside, survivors, ideal, count);
  } else {
    survivors.rows = inside;
    FillByDistance(table, ideal, Without(best, inside), count, &survivors.rows);
  }
  return survivors;
}

}  // namespace stalloc::planner
