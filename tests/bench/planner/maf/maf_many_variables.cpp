// MaF13 (PF7 of Zhang et al. 2009, with further objectives that are functions of the first three) and MaF14, MaF15
// (LSMOP3 and LSMOP8 of Cheng, Jin, Olhofer, Sendhoff 2016): variables that depend on one another.
#include <cmath>
#include <numbers>

#include "maf_parts.h"

namespace stalloc::bench {
namespace {

constexpr double kPi = std::numbers::pi;

class Maf13 final : public MafProblem {
 public:
  explicit Maf13(std::size_t objectives) : MafProblem(objectives, {0, 0, -2, -2, -2}, {1, 1, 2, 2, 2}) {}

  void Evaluate(std::span<const double> x, std::span<double> f) const override {
    double gap[5] = {};
    for (std::size_t j = 2; j < 5; ++j) {
      const double best = 2 * x[1] * std::sin(2 * kPi * x[0] + static_cast<double>(j + 1) * kPi / 5);
      gap[j] = (x[j] - best) * (x[j] - best);
    }
    const double angle = x[0] * kQuarterTurn;
    f[0] = std::sin(angle) + 2 * gap[3];
    f[1] = std::cos(angle) * std::sin(x[1] * kQuarterTurn) + 2 * gap[4];
    f[2] = std::cos(angle) * std::cos(x[1] * kQuarterTurn) + 2 * gap[2];
    const double rest = Rest(f) + gap[3] + gap[4];
    for (double& value : f.subspan(3)) value = rest;
  }

  Points SampleFront(std::size_t count) const override {
    Points sphere = SimplexLattice(count, 3);
    Points points{objectives(), {}};
    std::vector<double> row(objectives());
    for (std::size_t i = 0; i < sphere.rows(); ++i) {
      std::copy(sphere[i].begin(), sphere[i].end(), row.begin());
      Normalise(std::span(row).first(3));
      std::fill(row.begin() + 3, row.end(), Rest(row));
      points.Add(row);
    }
    return points;
  }

 private:
  static double Rest(std::span<const double> f) { return f[0] * f[0] + std::pow(f[1], 10) + std::pow(f[2], 10); }
};

// Variables beyond the positions are linked with the first one and fall into groups, one an objective, of two parts
// each; the groups' sizes follow a logistic map.
class ManyVariables : public MafProblem {
 public:
  void Evaluate(std::span<const double> x, std::span<double> f) const override {
    const std::size_t positions = objectives() - 1;
    std::vector<double> linked(x.begin(), x.end());
    for (std::size_t j = positions; j < linked.size(); ++j) {
      linked[j] = (1 + Link(static_cast<double>(j + 1) / static_cast<double>(x.size()))) * x[j] - 10 * x[0];
    }
    std::vector<double> g(objectives());
    std::size_t begin = positions;
    for (std::size_t k = 0; k < g.size(); ++k) {
      for (std::size_t part = 0; part < kParts; ++part) {
        const auto variables = std::span<const double>(linked).subspan(begin, sizes_[k]);
        g[k] += k % 2 == 0 ? EvenGroup(variables) : OddGroup(variables);
        begin += sizes_[k];
      }
      g[k] /= static_cast<double>(sizes_[k] * kParts);
    }
    Shape(x.first(positions), g, f);
  }

 protected:
  explicit ManyVariables(std::size_t objectives)
      : MafProblem(objectives, std::vector<double>(20 * objectives, 0), UpperBounds(objectives)) {
    std::vector<double> shares{3.8 * 0.1 * (1 - 0.1)};
    double sum = shares[0];
    while (shares.size() < objectives) {
      shares.push_back(3.8 * shares.back() * (1 - shares.back()));
      sum += shares.back();
    }
    const auto grouped = static_cast<double>(variables() - objectives + 1);
    for (const double share : shares) {
      sizes_.push_back(static_cast<std::size_t>(share / sum * grouped / static_cast<double>(kParts)));
    }
  }

  virtual double Link(double place) const = 0;
  virtual double EvenGroup(std::span<const double> x) const = 0;  // of the first, third, ... objective
  virtual double OddGroup(std::span<const double> x) const = 0;
  virtual void Shape(std::span<const double> positions, std::span<const double> g, std::span<double> f) const = 0;

 private:
  static constexpr std::size_t kParts = 2;

  static std::vector<double> UpperBounds(std::size_t objectives) {
    std::vector<double> upper(20 * objectives, 10);
    std::fill(upper.begin(), upper.begin() + static_cast<std::ptrdiff_t>(objectives) - 1, 1);
    return upper;
  }

  std::vector<std::size_t> sizes_;  // of one part of each group
};

class Maf14 final : public ManyVariables {
 public:
  explicit Maf14(std::size_t objectives) : ManyVariables(objectives) {}

  Points SampleFront(std::size_t count) const override { return SimplexLattice(count, objectives()); }

 private:
  double Link(double place) const override { return place; }

  double EvenGroup(std::span<const double> x) const override {  // Rastrigin
    double sum = 0;
    for (const double value : x) sum += value * value - 10 * std::cos(2 * kPi * value) + 10;
    return sum;
  }

  double OddGroup(std::span<const double> x) const override {  // Rosenbrock
    double sum = 0;
    for (std::size_t i = 0; i + 1 < x.size(); ++i) {
      sum += 100 * std::pow(x[i] * x[i] - x[i + 1], 2) + (x[i] - 1) * (x[i] - 1);
    }
    return sum;
  }

  void Shape(std::span<const double> positions, std::span<const double> g, std::span<double> f) const override {
    std::vector<double> rest(positions.size());
    for (std::size_t i = 0; i < rest.size(); ++i) rest[i] = 1 - positions[i];
    ProductShape(positions, rest, f);
    for (std::size_t k = 0; k < f.size(); ++k) f[k] *= 1 + g[k];
  }
};

class Maf15 final : public ManyVariables {
 public:
  explicit Maf15(std::size_t objectives) : ManyVariables(objectives) {}

  Points SampleFront(std::size_t count) const override {
    Points points = SimplexLattice(count, objectives());
    for (std::size_t i = 0; i < points.rows(); ++i) {
      const std::span<double> row(points.values.data() + i * points.columns, points.columns);
      Normalise(row);
      for (double& value : row) value = 1 - value;
    }
    return points;
  }

 private:
  double Link(double place) const override { return std::cos(place * kQuarterTurn); }

  double EvenGroup(std::span<const double> x) const override {  // Griewank
    double squares = 0;
    double product = 1;
    for (std::size_t i = 0; i < x.size(); ++i) {
      squares += x[i] * x[i];
      product *= std::cos(x[i] / std::sqrt(static_cast<double>(i + 1)));
    }
    return squares / 4000 - product + 1;
  }

  double OddGroup(std::span<const double> x) const override {  // sphere
    double squares = 0;
    for (const double value : x) squares += value * value;
    return squares;
  }

  void Shape(std::span<const double> positions, std::span<const double> g, std::span<double> f) const override {
    std::vector<double> cosines(positions.size());
    std::vector<double> sines(positions.size());
    for (std::size_t i = 0; i < positions.size(); ++i) {
      cosines[i] = std::cos(positions[i] * kQuarterTurn);
      sines[i] = std::sin(positions[i] * kQuarterTurn);
    }
    ProductShape(cosines, sines, f);
    for (std::size_t k = 0; k < f.size(); ++k) f[k] = (1 + g[k] + (k + 1 < g.size() ? g[k + 1] : 0)) * (1 - f[k]);
  }
};

}  // namespace

std::unique_ptr<MafProblem> MakeMaf13(std::size_t objectives) { return std::make_unique<Maf13>(objectives); }

std::unique_ptr<MafProblem> MakeMafOfManyVariables(int number, std::size_t objectives) {
  if (number == 14) return std::make_unique<Maf14>(objectives);
  return std::make_unique<Maf15>(objectives);
}

}  // namespace stalloc::bench
