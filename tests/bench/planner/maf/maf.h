// MaF1-MaF15, the many-objective problems of the CEC 2017 competition, and samples of their true fronts.
//
// Source: R. Cheng, M. Li, Y. Tian, X. Zhang, S. Yang, Y. Jin, X. Yao, "A benchmark test suite for evolutionary
// many-objective optimization", Complex & Intelligent Systems 3 (2017) 67-81. All are minimised. With m objectives:
//
//   1  linear, inverted (DTLZ1's front turned over)    9  distances to the sides of a polygon; forbidden regions
//   2  concave; every objective group its own g       10  WFG1: mixed, biased
//   3  convex, multimodal                             11  WFG2: convex, disconnected, variables in pairs
//   4  inverted, badly scaled, multimodal             12  WFG9: concave, deceptive, nonseparable
//   5  concave, badly scaled, biased                  13  degenerate: a sphere in three, functions of it in the rest
//   6  degenerate: a curve                            14  linear, many variables (20 m)
//   7  disconnected: 2^(m-1) pieces                   15  inverted, many variables (20 m)
//   8  distances to the corners of a polygon
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

namespace stalloc::bench {

inline constexpr int kMafProblems = 15;

// Rows of equal length, one point each.
struct Points {
  std::size_t columns = 0;
  std::vector<double> values;

  std::size_t rows() const { return columns == 0 ? 0 : values.size() / columns; }
  std::span<const double> operator[](std::size_t row) const { return {values.data() + row * columns, columns}; }
  void Add(std::span<const double> row) { values.insert(values.end(), row.begin(), row.end()); }
};

class MafProblem {
 public:
  virtual ~MafProblem() = default;

  std::size_t objectives() const { return objectives_; }
  const std::vector<double>& lower() const { return lower_; }
  const std::vector<double>& upper() const { return upper_; }
  std::size_t variables() const { return lower_.size(); }

  // The competition's: the larger of 100 000 and 10 000 for each variable.
  std::uint64_t PublishedEvaluations() const { return std::max<std::uint64_t>(100'000, 10'000 * variables()); }

  // Moves a forbidden point to a random allowed one (MaF9 alone forbids any).
  virtual void Repair(std::span<double> variables, std::mt19937_64& random) const;

  virtual void Evaluate(std::span<const double> variables, std::span<double> objectives) const = 0;

  // About `count` points of the true front, spread as the suite's authors do.
  virtual Points SampleFront(std::size_t count) const = 0;

 protected:
  MafProblem(std::size_t objectives, std::vector<double> lower, std::vector<double> upper);
  MafProblem(std::size_t objectives, std::size_t variables);  // in [0, 1]

 private:
  std::size_t objectives_;
  std::vector<double> lower_;
  std::vector<double> upper_;
};

// `number` in 1..kMafProblems, `objectives` >= 3.
std::unique_ptr<MafProblem> MakeMaf(int number, std::size_t objectives);

// Inverted generational distance: the mean, over the points of the true front, of the distance to the nearest of
// `found`. Lower is better; infinite where nothing was found.
double InvertedGenerationalDistance(const Points& front, const Points& found);

}  // namespace stalloc::bench
