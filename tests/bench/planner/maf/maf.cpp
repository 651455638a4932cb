#include "maf.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "maf_parts.h"

namespace stalloc::bench {

MafProblem::MafProblem(std::size_t objectives, std::vector<double> lower, std::vector<double> upper)
    : objectives_(objectives), lower_(std::move(lower)), upper_(std::move(upper)) {}

MafProblem::MafProblem(std::size_t objectives, std::size_t variables)
    : MafProblem(objectives, std::vector<double>(variables, 0), std::vector<double>(variables, 1)) {}

void MafProblem::Repair(std::span<double> /*variables*/, std::mt19937_64& /*random*/) const {}

std::unique_ptr<MafProblem> MakeMaf(int number, std::size_t objectives) {
  if (number <= 7) return MakeMafOfDtlz(number, objectives);
  if (number <= 9) return MakeMafOfPolygon(number, objectives);
  if (number <= 12) return MakeMafOfWfg(number, objectives);
  if (number == 13) return MakeMaf13(objectives);
  return MakeMafOfManyVariables(number, objectives);
}

void ProductShape(std::span<const double> a, std::span<const double> b, std::span<double> shape) {
  const std::size_t last = shape.size() - 1;
  double product = 1;
  for (std::size_t i = 0; i < last; ++i) {
    shape[last - i] = product * b[i];
    product *= a[i];
  }
  shape[0] = product;
}

namespace {

double Choose(std::size_t n, std::size_t k) {
  double ways = 1;
  for (std::size_t i = 1; i <= k; ++i) ways = ways * static_cast<double>(n - k + i) / static_cast<double>(i);
  return ways;
}

// How many parts each axis is cut into, so that there are at most `count` points.
std::size_t Divisions(double count, std::size_t dimensions) {
  std::size_t divisions = 0;
  while (Choose(divisions + dimensions, dimensions - 1) <= count) ++divisions;
  return divisions;
}

void AddLattice(std::size_t divisions, double scale, Points* points) {
  const std::size_t dimensions = points->columns;
  const double shift = (1 - scale) / static_cast<double>(dimensions);
  std::vector<double> row(dimensions);
  const auto fill = [&](const auto& self, std::size_t axis, std::size_t left) -> void {
    const std::size_t lowest = axis + 1 == dimensions ? left : 0;
    for (std::size_t part = lowest; part <= left; ++part) {
      row[axis] = static_cast<double>(part) / static_cast<double>(divisions) * scale + shift;
      if (axis + 1 == dimensions) {
        points->Add(row);
      } else {
        self(self, axis + 1, left - part);
      }
    }
  };
  fill(fill, 0, divisions);
}

}  // namespace

Points SimplexLattice(std::size_t count, std::size_t dimensions) {
  Points points{dimensions, {}};
  const std::size_t outer = std::max<std::size_t>(Divisions(static_cast<double>(count), dimensions), 1);
  AddLattice(outer, 1, &points);
  if (outer < dimensions) {
    const double left = static_cast<double>(count) - static_cast<double>(points.rows());
    if (const std::size_t inner = Divisions(left, dimensions); inner > 0) AddLattice(inner, 0.5, &points);
  }
  for (double& value : points.values) value = std::max(value, 1e-6);
  return points;
}

Points Grid(std::size_t count, std::size_t dimensions) {
  const auto side = static_cast<std::size_t>(
      std::ceil(std::pow(static_cast<double>(count), 1 / static_cast<double>(dimensions)) - 1e-9));
  Points points{dimensions, {}};
  std::vector<std::size_t> at(dimensions, 0);
  std::vector<double> row(dimensions);
  for (;;) {
    for (std::size_t k = 0; k < dimensions; ++k) row[k] = static_cast<double>(at[k]) / static_cast<double>(side - 1);
    points.Add(row);
    std::size_t k = 0;
    while (k < dimensions && ++at[k] == side) at[k++] = 0;
    if (k == dimensions) return points;
  }
}

void Normalise(std::span<double> row) {
  double squares = 0;
  for (const double value : row) squares += value * value;
  for (double& value : row) value /= std::sqrt(squares);
}

double InvertedGenerationalDistance(const Points& front, const Points& found) {
  double sum = 0;
  for (std::size_t i = 0; i < front.rows(); ++i) {
    double nearest = std::numeric_limits<double>::infinity();
    for (std::size_t k = 0; k < found.rows(); ++k) {
      double squares = 0;
      for (std::size_t c = 0; c < front.columns; ++c) {
        const double gap = front[i][c] - found[k][c];
        squares += gap * gap;
      }
      nearest = std::min(nearest, squares);
    }
    sum += std::sqrt(nearest);
  }
  return sum / static_cast<double>(front.rows());
}

}  // namespace stalloc::bench
