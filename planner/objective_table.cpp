#include "objective_table.h"

#include <algorithm>
#include <cmath>

#include "planner/many_objective.h"

namespace stalloc::planner {

bool Dominates(std::span<const double> a, std::span<const double> b) {
  bool better = false;
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (a[k] > b[k]) return false;
    better |= a[k] < b[k];
  }
  return better;
}

std::vector<double> ObjectiveTable::Ideal() const {
  if (values_.empty()) return {};
  const ObjectiveTable& self = *this;
  std::vector<double> ideal(self[0].begin(), self[0].end());
  for (std::size_t row = 1; row < rows(); ++row) {
    for (std::size_t k = 0; k < objectives_; ++k) ideal[k] = std::min(ideal[k], self[row][k]);
  }
  return ideal;
}

std::vector<std::uint32_t> ObjectiveTable::NonDominated(double resolution) const {
  ObjectiveTable rounded = *this;
  if (resolution > 0) {
    for (double& value : rounded.values_) value = std::round(value / resolution);
  }
  // In order of the sum nothing is dominated by what comes later, and what is dominated need not be compared again.
  std::vector<double> sums(rows(), 0);
  std::vector<std::uint32_t> order(rows());
  for (std::uint32_t row = 0; row < rows(); ++row) {
    order[row] = row;
    for (const double value : rounded[row]) sums[row] += value;
  }
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return sums[a] < sums[b]; });
  std::vector<std::uint32_t> kept;
  for (const std::uint32_t row : order) {
    const auto beats = [&](std::uint32_t other) { return Dominates(rounded[other], rounded[row]); };
    if (std::none_of(kept.begin(), kept.end(), beats)) kept.push_back(row);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

}  // namespace stalloc::planner
