// What the families of MaF problems share: makers, shapes of fronts, spread points.
#pragma once

#include <cstddef>
#include <memory>
#include <numbers>
#include <span>

#include "maf.h"

namespace stalloc::bench {

inline constexpr double kQuarterTurn = std::numbers::pi / 2;

std::unique_ptr<MafProblem> MakeMafOfDtlz(int number, std::size_t objectives);     // 1-7
std::unique_ptr<MafProblem> MakeMafOfPolygon(int number, std::size_t objectives);  // 8, 9
std::unique_ptr<MafProblem> MakeMafOfWfg(int number, std::size_t objectives);      // 10-12
std::unique_ptr<MafProblem> MakeMaf13(std::size_t objectives);
std::unique_ptr<MafProblem> MakeMafOfManyVariables(int number, std::size_t objectives);  // 14, 15

// shape[0] = a_0 a_1 ... a_(m-2); shape[k] = a_0 ... a_(m-2-k) b_(m-1-k): the product form in which all these fronts
// are written, for m = shape.size() and positions a, b of m - 1 values.
void ProductShape(std::span<const double> a, std::span<const double> b, std::span<double> shape);

// About `count` points, at most, of the unit simplex (non-negative, sum 1): the lattice of Das & Dennis (1998), and
// where its finest has no point in the middle (fewer divisions than dimensions) a second, shrunk one. No value is zero:
// the smallest is 1e-6.
Points SimplexLattice(std::size_t count, std::size_t dimensions);

// A full grid of about `count` points in [0, 1]^dimensions, edges included.
Points Grid(std::size_t count, std::size_t dimensions);

// Scales a row to length one.
void Normalise(std::span<double> row);

}  // namespace stalloc::bench
