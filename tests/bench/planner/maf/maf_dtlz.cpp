// MaF1-MaF7: the DTLZ family bent. The first m - 1 variables are the position on the front, the others the distance
// from it.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "maf_parts.h"

namespace stalloc::bench {
namespace {

constexpr double kPi = std::numbers::pi;

class DtlzBase : public MafProblem {
 protected:
  explicit DtlzBase(std::size_t objectives, std::size_t distance_variables = 10)
      : MafProblem(objectives, objectives - 1 + distance_variables) {}

  std::size_t positions() const { return objectives() - 1; }
  std::span<const double> DistancePart(std::span<const double> x) const { return x.subspan(positions()); }

  static double Sphere(std::span<const double> x) {
    double sum = 0;
    for (const double value : x) sum += (value - 0.5) * (value - 0.5);
    return sum;
  }

  static double Rastrigin(std::span<const double> x) {
    double sum = static_cast<double>(x.size());
    for (const double value : x) sum += (value - 0.5) * (value - 0.5) - std::cos(20 * kPi * (value - 0.5));
    return 100 * sum;
  }

  // The part of the unit sphere whose angles are the given positions.
  void SphereShape(std::span<const double> angles, std::span<double> shape) const {
    std::vector<double> cosines(angles.size());
    std::vector<double> sines(angles.size());
    for (std::size_t i = 0; i < angles.size(); ++i) {
      cosines[i] = std::cos(angles[i]);
      sines[i] = std::sin(angles[i]);
    }
    ProductShape(cosines, sines, shape);
  }

  std::vector<double> Angles(std::span<const double> x) const {
    std::vector<double> angles(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(positions()));
    for (double& angle : angles) angle *= kQuarterTurn;
    return angles;
  }

  // SimplexLattice, every row of which `change` turns into a point of the front.
  template <typename Change>
  Points Changed(std::size_t count, Change change) const {
    Points points = SimplexLattice(count, objectives());
    for (std::size_t i = 0; i < points.rows(); ++i) {
      change(std::span<double>(points.values.data() + i * points.columns, points.columns));
    }
    return points;
  }
};

class Maf1 final : public DtlzBase {
 public:
  explicit Maf1(std::size_t objectives) : DtlzBase(objectives) {}

  void Evaluate(std::span<const double> x, std::span<double> f) const override {
    const double g = Sphere(DistancePart(x));
    std::vector<double> rest(positions());
    for (std::size_t i = 0; i < rest.size(); ++i) rest[i] = 1 - x[i];
    ProductShape(x.first(positions()), rest, f);
    for (double& value : f) value = (1 + g) * (1 - value);
  }

  Points SampleFront(std::size_t count) const override {
    return Changed(count, [](std::span<double> row) {
      for (double& value : row) value = 1 - value;
    });
  }
};

// DTLZ2BZ: angles between an eighth and three eighths of a half turn; the distance variables in m groups, one for each
// objective.
class Maf2 final : public DtlzBase {
 public:
  explicit Maf2(std::size_t objectives) : DtlzBase(objectives) {}

  void Evaluate(std::span<const double> x, std::span<double> f) const override {
    std::vector<double> angles(positions());
    for (std::size_t i = 0; i < angles.size(); ++i) angles[i] = (x[i] / 2 + 0.25) * kQuarterTurn;
    SphereShape(angles, f);
    const std::span<const double> distance = DistancePart(x);
    const std::size_t group = distance.size() / objectives();
    for (std::size_t k = 0; k < f.size(); ++k) {
      const std::size_t end = k + 1 == f.size() ? distance.size() : (k + 1) * group;
      double g = 0;
      for (std::size_t i = k * group; i < end; ++i) g += (distance[i] / 2 - 0.25) * (distance[i] / 2 - 0.25);
      f[k] *= 1 + g;
    }
  }

  // Up to five objectives: the directions of a lattice that meet the front; the lattice is refined until enough do.
  // Beyond, where hardly any would, the cosines of all directions are squeezed into the front's range.
  Points SampleFront(std::size_t count) const override {
    if (objectives() > 5) return OfLattice(count, true);
    for (std::size_t lattice = count;; lattice *= 2) {
      Points points = OfLattice(lattice, false);
      if (points.rows() >= count / 4) return points;
    }
  }

 private:
  Points OfLattice(std::size_t count, bool squeeze) const {
    const double low = std::cos(3 * kPi / 8);
    const double high = std::cos(kPi / 8);
    const Points lattice = SimplexLattice(count, objectives());
    Points points{objectives(), {}};
    std::vector<double> cosines(positions());
    std::vector<double> sines(positions());
    std::vector<double> row(objectives());
    for (std::size_t i = 0; i < lattice.rows(); ++i) {
      const std::span<const double> direction = lattice[i];
      double product = 1;  // of the cosines that are known, the last positions first
      for (std::size_t k = 1; k < objectives(); ++k) {
        const double ratio = direction[k] / direction[0] * product;
        const std::size_t position = positions() - k;
        cosines[position] = std::sqrt(1 / (1 + ratio * ratio));
        product *= cosines[position];
      }
      if (squeeze) {
        for (double& cosine : cosines) cosine = cosine * (high - low) + low;
      } else if (std::any_of(cosines.begin(), cosines.end(), [&](double c) { return c < low || c > high; })) {
        continue;
      }
      for (std::size_t k = 0; k < sines.size(); ++k) sines[k] = std::sqrt(1 - cosines[k] * cosines[k]);
      ProductShape(cosines, sines, row);
      points.Add(row);
    }
    return points;
  }
};

class Maf3 final : public DtlzBase {
 public:
  explicit Maf3(std::size_t objectives) : DtlzBase(objectives) {}

  void Evaluate(std::span<const double> x, std::span<double> f) const override {
    const double g = Rastrigin(DistancePart(x));
    SphereShape(Angles(x), f);
    for (std::size_t k = 0; k < f.size(); ++k) f[k] = std::pow((1 + g) * f[k], k + 1 == f.size() ? 2 : 4);
  }

  // sum of sqrt(f_k) over all but the last, and the last, is 1.
  Points SampleFront(std::size_t count) const override {
    return Changed(count, [](std::span<double> row) {
      for (double& value : row) value *= value;
      double sum = row.back();
      for (const double value : row.first(row.size() - 1)) sum += std::sqrt(value);
      for (double& value : row.first(row.size() - 1)) value /= sum * sum;
      row.back() /= sum;
    });
  }
};

class Maf4 final : public DtlzBase {
 public:
  explicit Maf4(std::size_t objectives) : DtlzBase(objectives) {}

  void Evaluate(std::span<const double> x, std::span<double> f) const override {
    const double g = Rastrigin(DistancePart(x));
    SphereShape(Angles(x), f);
    for (std::size_t k = 0; k < f.size(); ++k) f[k] = std::ldexp((1 + g) * (1 - f[k]), static_cast<int>(k) + 1);
  }

  Points SampleFront(std::size_t count) const override {
    return Changed(count, [](std::span<double> row) {
      Normalise(row);
      for (std::size_t k = 0; k < row.size(); ++k) row[k] = std::ldexp(1 - row[k], static_cast<int>(k) + 1);
    });
  }
};

class Maf5 final : public DtlzBase {
 public:
  explicit Maf5(std::size_t objectives) : DtlzBase(objectives) {}

  void Evaluate(std::span<const double> x, std::span<double> f) const override {
    const double g = Sphere(DistancePart(x));
    std::vector<double> biased(x.begin(), x.end());
    for (std::size_t i = 0; i < positions(); ++i) biased[i] = std::pow(x[i], 100);
    SphereShape(Angles(biased), f);
    for (std::size_t k = 0; k < f.size(); ++k) f[k] = std::ldexp((1 + g) * f[k], static_cast<int>(f.size() - k));
  }

  Points SampleFront(std::size_t count) const override {
    return Changed(count, [](std::span<double> row) {
      Normalise(row);
      for (std::size_t k = 0; k < row.size(); ++k) row[k] = std::ldexp(row[k], static_cast<int>(row.size() - k));
    });
  }
};

// DTLZ5(2, m): all positions but the first are drawn to the middle as the front comes near.
class Maf6 final : public DtlzBase {
 public:
  explicit Maf6(std::size_t objectives) : DtlzBase(objectives) {}

  void Evaluate(std::span<const double> x, std::span<double> f) const override {
    const double g = Sphere(DistancePart(x));
    std::vector<double> bent(x.begin(), x.end());
    for (std::size_t i = 1; i < positions(); ++i) bent[i] = (1 + 2 * g * x[i]) / (2 + 2 * g);
    SphereShape(Angles(bent), f);
    for (double& value : f) value *= 1 + 100 * g;
  }

  Points SampleFront(std::size_t count) const override {
    Points curve = SimplexLattice(count, 2);
    Points points{objectives(), {}};
    std::vector<double> row(objectives());
    for (std::size_t i = 0; i < curve.rows(); ++i) {
      const double length = std::hypot(curve[i][0], curve[i][1]);
      for (std::size_t k = 0; k < row.size(); ++k) {
        const std::size_t halvings = std::min(positions() - k, positions() - 1);  // of the square
        const double value = k + 1 == row.size() ? curve[i][1] : curve[i][0];
        row[k] = value / length / std::pow(std::numbers::sqrt2, k + 1 == row.size() ? 0 : halvings);
      }
      points.Add(row);
    }
    return points;
  }
};

// DTLZ7: every position is an objective; the last objective has a wave in each of them.
class Maf7 final : public DtlzBase {
 public:
  explicit Maf7(std::size_t objectives) : DtlzBase(objectives, 20) {}

  void Evaluate(std::span<const double> x, std::span<double> f) const override {
    double g = 0;
    for (const double value : DistancePart(x)) g += value;
    g = 1 + 9 * g / static_cast<double>(variables() - positions());
    Fill(x.first(positions()), g, f);
  }

  Points SampleFront(std::size_t count) const override {
    // Where in [0, 1] a position is optimal whatever the others are.
    constexpr double kFirst[] = {0, 0.251412};
    constexpr double kSecond[] = {0.631627, 0.859401};
    constexpr double kShare = (kFirst[1] - kFirst[0]) / (kFirst[1] - kFirst[0] + kSecond[1] - kSecond[0]);
    const Points grid = Grid(count, positions());
    Points points{objectives(), {}};
    std::vector<double> x(positions());
    std::vector<double> row(objectives());
    for (std::size_t i = 0; i < grid.rows(); ++i) {
      for (std::size_t k = 0; k < x.size(); ++k) {
        const double at = grid[i][k];
        x[k] = at <= kShare ? kFirst[0] + at / kShare * (kFirst[1] - kFirst[0])
                            : kSecond[0] + (at - kShare) / (1 - kShare) * (kSecond[1] - kSecond[0]);
      }
      Fill(x, 1, row);
      points.Add(row);
    }
    return points;
  }

 private:
  static void Fill(std::span<const double> positions, double g, std::span<double> f) {
    double h = static_cast<double>(f.size());
    for (std::size_t i = 0; i < positions.size(); ++i) {
      f[i] = positions[i];
      h -= positions[i] / (1 + g) * (1 + std::sin(3 * kPi * positions[i]));
    }
    f.back() = (1 + g) * h;
  }
};

}  // namespace

std::unique_ptr<MafProblem> MakeMafOfDtlz(int number, std::size_t objectives) {
  switch (number) {
    case 1:
      return std::make_unique<Maf1>(objectives);
    case 2:
      return std::make_unique<Maf2>(objectives);
    case 3:
      return std::make_unique<Maf3>(objectives);
    case 4:
      return std::make_unique<Maf4>(objectives);
    case 5:
      return std::make_unique<Maf5>(objectives);
    case 6:
      return std::make_unique<Maf6>(objectives);
    default:
      return std::make_unique<Maf7>(objectives);
  }
}

}  // namespace stalloc::bench
