#include "corner_solutions.h"

#include <algorithm>

namespace stalloc::planner {
namespace {

double SquaredDistanceToAxis(std::span<const double> row, std::span<const double> ideal, std::size_t axis) {
  double squares = 0;
  for (std::size_t k = 0; k < row.size(); ++k) {
    if (k != axis) squares += (row[k] - ideal[k]) * (row[k] - ideal[k]);
  }
  return squares;
}

double SumAbove(std::span<const double> row, std::span<const double> ideal) {
  double sum = 0;
  for (std::size_t k = 0; k < row.size(); ++k) sum += row[k] - ideal[k];
  return sum;
}

template <typename Measure>
std::uint32_t Least(std::span<const std::uint32_t> rows, Measure measure) {
  std::uint32_t best = rows.front();
  double least = measure(best);
  for (const std::uint32_t row : rows.subspan(1)) {
    const double here = measure(row);
    if (here < least) {
      least = here;
      best = row;
    }
  }
  return best;
}

void SortUnique(std::vector<std::uint32_t>* rows) {
  std::sort(rows->begin(), rows->end());
  rows->erase(std::unique(rows->begin(), rows->end()), rows->end());
}

}  // namespace

std::vector<double> NadirOf(const ObjectiveTable& table, std::span<const std::uint32_t> corners) {
  std::vector<double> nadir(table[corners.front()].begin(), table[corners.front()].end());
  for (const std::uint32_t corner : corners) {
    for (std::size_t k = 0; k < nadir.size(); ++k) nadir[k] = std::max(nadir[k], table[corner][k]);
  }
  return nadir;
}

std::vector<std::uint32_t> SelectCorners(const ObjectiveTable& table, std::span<const std::uint32_t> candidates,
                                         std::span<const double> ideal) {
  std::vector<std::uint32_t> corners;
  for (std::size_t axis = 0; axis < table.objectives(); ++axis) {
    corners.push_back(
        Least(candidates, [&](std::uint32_t row) { return SquaredDistanceToAxis(table[row], ideal, axis); }));
  }
  SortUnique(&corners);

  std::vector<std::uint32_t> others;
  std::set_difference(candidates.begin(), candidates.end(), corners.begin(), corners.end(), std::back_inserter(others));
  if (others.empty()) return corners;
  const std::vector<double> reach = NadirOf(table, corners);
  const double limit = 1.5 * SumAbove(reach, ideal);
  const auto goes_beyond = [&](std::span<const double> row) {
    for (std::size_t k = 0; k < row.size(); ++k) {
      if (row[k] > reach[k]) return true;
    }
    return false;
  };
  for (std::size_t axis = 0; axis < table.objectives(); ++axis) {
    const std::uint32_t best = Least(others, [&](std::uint32_t row) { return table[row][axis]; });
    if (SumAbove(table[best], ideal) < limit && goes_beyond(table[best])) corners.push_back(best);
  }
  SortUnique(&corners);
  return corners;
}

}  // namespace stalloc::planner
