// MaF10-MaF12: WFG1, WFG2 and WFG9 (Huband, Hingston, Barone, While, IEEE Transactions on Evolutionary Computation
// 10(5), 2006), with m - 1 position variables, 10 distance variables (11 made even), variable i in [0, 2 i].
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "maf_parts.h"

namespace stalloc::bench {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr std::size_t kDistanceVariables = 10;

std::vector<double> UpperBounds(std::size_t variables) {
  std::vector<double> upper(variables);
  for (std::size_t i = 0; i < variables; ++i) upper[i] = 2 * static_cast<double>(i + 1);
  return upper;
}

// Transformations, by the names of the paper.
double ShiftLinear(double y, double optimum) {
  return std::abs(y - optimum) / std::abs(std::floor(optimum - y) + optimum);
}

double ShiftDeceptive(double y, double a, double b, double c) {
  const double left = std::floor(y - a + b) * (1 - c + (a - b) / b) / (a - b);
  const double right = std::floor(a + b - y) * (1 - c + (1 - a - b) / b) / (1 - a - b);
  return 1 + (std::abs(y - a) - b) * (left + right + 1 / b);
}

double ShiftMultimodal(double y, double a, double b, double c) {
  const double from = std::abs(y - c) / 2 / (std::floor(c - y) + c);
  return (1 + std::cos((4 * a + 2) * kPi * (0.5 - from)) + 4 * b * from * from) / (b + 2);
}

// Rounded, since what follows raises it to the power 0.02, which would make a rounding error of 1e-17 a value of 0.46.
double BiasFlat(double y, double a, double b, double c) {
  const double flat = a + std::min(0.0, std::floor(y - b)) * a * (b - y) / b -
                      std::min(0.0, std::floor(c - y)) * (1 - a) * (y - c) / (1 - c);
  return std::max(0.0, std::round(flat * 1e4) / 1e4);
}

double BiasParameter(double y, double influence) {
  constexpr double kA = 0.98 / 49.98;
  constexpr double kB = 0.02;
  constexpr double kC = 50;
  const double v = kA - (1 - 2 * influence) * std::abs(std::floor(0.5 - influence) + kA);
  return std::pow(y, kB + (kC - kB) * v);
}

// All of them depend on one another.
double ReduceNonseparable(std::span<const double> y) {
  const std::size_t size = y.size();
  const double half = std::ceil(static_cast<double>(size) / 2);
  double sum = 0;
  for (std::size_t i = 0; i < size; ++i) {
    sum += y[i];
    for (std::size_t k = i + 1; k < size; ++k) sum += 2 * std::abs(y[i] - y[k]);
  }
  return sum / half / (1 + 2 * static_cast<double>(size) - 2 * half);
}

class WfgBase : public MafProblem {
 public:
  void Evaluate(std::span<const double> x, std::span<double> f) const override {
    std::vector<double> z(x.begin(), x.end());
    for (std::size_t i = 0; i < z.size(); ++i) z[i] = x[i] / upper()[i];
    const double distance = Transform(z);  // the positions stay in front
    std::vector<double> at(objectives() - 1);
    for (std::size_t i = 0; i < at.size(); ++i) at[i] = std::max(distance, 1.0) * (z[i] - 0.5) + 0.5;
    Shape(at, f);
    for (std::size_t k = 0; k < f.size(); ++k) f[k] = distance + 2 * static_cast<double>(k + 1) * f[k];
  }

 protected:
  explicit WfgBase(std::size_t objectives)
      : MafProblem(objectives, std::vector<double>(objectives - 1 + kDistanceVariables, 0),
                   UpperBounds(objectives - 1 + kDistanceVariables)) {}

  // Transforms the positions z[0..m-2] in place; the distance from the front, in [0, 1].
  virtual double Transform(std::vector<double>& z) const = 0;
  // The front, unscaled, at positions in [0, 1].
  virtual void Shape(std::span<const double> at, std::span<double> f) const = 0;

  std::span<double> DistancePart(std::vector<double>& z) const { return std::span(z).subspan(objectives() - 1); }

  static void Scale(std::span<double> f) {
    for (std::size_t k = 0; k < f.size(); ++k) f[k] *= 2 * static_cast<double>(k + 1);
  }
};

// Convex in all objectives but the last, which is a wave over the first position. The first position scales all other
// objectives up, so it is optimal where the wave is lower than at all positions before.
class ConvexBase : public WfgBase {
 public:
  // Points in the directions of a lattice: all positions but the first follow from the ratios of neighbouring
  // objectives in closed form; the first is where the ray meets the wave, if the wave is optimal there.
  Points SampleFront(std::size_t count) const override {
    const Points lattice = SimplexLattice(count, objectives());
    const std::vector<Step> steps = Steps();
    const std::size_t positions = objectives() - 1;
    Points points{objectives(), {}};
    std::vector<double> at(positions);
    std::vector<double> row(objectives());
    for (std::size_t i = 0; i < lattice.rows(); ++i) {
      const std::span<const double> direction = lattice[i];
      double product = 1;  // of 1 - cos of the positions that are known, the last first
      for (std::size_t k = 1; k < positions; ++k) {
        // (1 - sin) / (1 - cos) == ratio
        const double ratio = direction[k] / direction[0] * product;
        const double cosine = (ratio * ratio - ratio + std::sqrt(2 * ratio)) / (ratio * ratio + 1);
        at[positions - k] = std::acos(std::min(cosine, 1.0)) / kQuarterTurn;
        product *= 1 - cosine;
      }
      const double slope = direction[positions] / direction[positions - 1] * (1 - std::sin(kQuarterTurn * at[1]));
      const auto met = std::find_if(steps.begin(), steps.end() - 1,
                                    [&](const Step& step) { return slope * step.scale >= step.last; });
      if (!met->optimal) continue;
      at[0] = met->position;
      Shape(at, row);
      Scale(row);
      points.Add(row);
    }
    return points;
  }

 protected:
  explicit ConvexBase(std::size_t objectives) : WfgBase(objectives) {}

  virtual double Last(double first_position) const = 0;

  void Shape(std::span<const double> at, std::span<double> f) const override {
    std::vector<double> cosines(at.size());
    std::vector<double> sines(at.size());
    for (std::size_t i = 0; i < at.size(); ++i) {
      cosines[i] = 1 - std::cos(kQuarterTurn * at[i]);
      sines[i] = 1 - std::sin(kQuarterTurn * at[i]);
    }
    ProductShape(cosines, sines, f);
    f.back() = Last(at[0]);
  }

 private:
  struct Step {
    double position;
    double scale;  // of all objectives but the last
    double last;
    bool optimal;
  };

  std::vector<Step> Steps() const {
    constexpr std::size_t kSteps = 10000;
    std::vector<Step> steps;
    double lowest = std::numeric_limits<double>::infinity();
    for (std::size_t step = 0; step <= kSteps; ++step) {
      const double position = static_cast<double>(step) / kSteps;
      const double last = Last(position);
      steps.push_back({position, 1 - std::cos(kQuarterTurn * position), last, last < lowest});
      lowest = std::min(lowest, last);
    }
    return steps;
  }
};

class Maf10 final : public ConvexBase {
 public:
  explicit Maf10(std::size_t objectives) : ConvexBase(objectives) {}

 private:
  double Transform(std::vector<double>& z) const override {
    double sum = 0;
    double weights = 0;
    const std::size_t positions = objectives() - 1;
    for (std::size_t i = 0; i < z.size(); ++i) {
      if (i >= positions) z[i] = BiasFlat(ShiftLinear(z[i], 0.35), 0.8, 0.75, 0.85);
      z[i] = std::pow(z[i], 0.02);
      if (i < positions) continue;
      sum += 2 * static_cast<double>(i + 1) * z[i];
      weights += 2 * static_cast<double>(i + 1);
    }
    return sum / weights;
  }

  double Last(double first) const override { return 1 - first - std::cos(10 * kPi * first + kPi / 2) / (10 * kPi); }
};

class Maf11 final : public ConvexBase {
 public:
  explicit Maf11(std::size_t objectives) : ConvexBase(objectives) {}

 private:
  double Transform(std::vector<double>& z) const override {
    const std::span<double> distance = DistancePart(z);
    for (double& value : distance) value = ShiftLinear(value, 0.35);
    double sum = 0;
    for (std::size_t i = 0; i < distance.size(); i += 2) {
      sum += (distance[i] + distance[i + 1] + 2 * std::abs(distance[i] - distance[i + 1])) / 3;
    }
    return sum / static_cast<double>(distance.size() / 2);
  }

  double Last(double first) const override {
    const double wave = std::cos(5 * kPi * first);
    return 1 - first * wave * wave;
  }
};

class Maf12 final : public WfgBase {
 public:
  explicit Maf12(std::size_t objectives) : WfgBase(objectives) {}

  Points SampleFront(std::size_t count) const override {
    Points points = SimplexLattice(count, objectives());
    for (std::size_t i = 0; i < points.rows(); ++i) {
      const std::span<double> row(points.values.data() + i * points.columns, points.columns);
      Normalise(row);
      Scale(row);
    }
    return points;
  }

 private:
  double Transform(std::vector<double>& z) const override {
    // Each variable's bias depends on the mean of those after it, as they were given.
    double after = 0;
    for (std::size_t i = z.size(); i-- > 0;) {
      const double given = z[i];
      const auto count = static_cast<double>(z.size() - 1 - i);
      if (count > 0) z[i] = BiasParameter(given, after / count);
      after += given;
    }
    const std::size_t positions = objectives() - 1;
    for (std::size_t i = 0; i < z.size(); ++i) {
      z[i] = i < positions ? ShiftDeceptive(z[i], 0.35, 0.001, 0.05) : ShiftMultimodal(z[i], 30, 95, 0.35);
    }
    return ReduceNonseparable(DistancePart(z));
  }

  void Shape(std::span<const double> at, std::span<double> f) const override {
    std::vector<double> sines(at.size());
    std::vector<double> cosines(at.size());
    for (std::size_t i = 0; i < at.size(); ++i) {
      sines[i] = std::sin(kQuarterTurn * at[i]);
      cosines[i] = std::cos(kQuarterTurn * at[i]);
    }
    ProductShape(sines, cosines, f);
  }
};

}  // namespace

std::unique_ptr<MafProblem> MakeMafOfWfg(int number, std::size_t objectives) {
  if (number == 10) return std::make_unique<Maf10>(objectives);
  if (number == 11) return std::make_unique<Maf11>(objectives);
  return std::make_unique<Maf12>(objectives);
}

}  // namespace stalloc::bench
