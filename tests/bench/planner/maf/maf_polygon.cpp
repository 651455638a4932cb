// MaF8 and MaF9: distances in the plane from the corners, or from the sides, of a regular polygon with m corners. All
// points within the polygon are optimal.
#include <cmath>
#include <numbers>
#include <utility>

#include "maf_parts.h"

namespace stalloc::bench {
namespace {

struct Point {
  double x;
  double y;
};
using Polygon = std::vector<Point>;

Polygon RegularPolygon(std::size_t corners) {
  Polygon polygon;
  for (std::size_t k = 1; k <= corners; ++k) {
    const double angle =
        std::numbers::pi / 2 - 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(corners);
    polygon.push_back({std::cos(angle), std::sin(angle)});
  }
  return polygon;
}

// By the number of sides that a ray to the right meets.
bool Inside(const Polygon& polygon, Point at) {
  bool inside = false;
  for (std::size_t i = 0, j = polygon.size() - 1; i < polygon.size(); j = i++) {
    const Point a = polygon[i];
    const Point b = polygon[j];
    if ((a.y > at.y) != (b.y > at.y) && at.x < (b.x - a.x) * (at.y - a.y) / (b.y - a.y) + a.x) inside = !inside;
  }
  return inside;
}

// Where the lines through a, b and through c, d meet.
Point Intersection(Point a, Point b, Point c, Point d) {
  const double first = a.x * b.y - a.y * b.x;
  const double second = c.x * d.y - c.y * d.x;
  const double scale = (a.x - b.x) * (c.y - d.y) - (a.y - b.y) * (c.x - d.x);
  return {(first * (c.x - d.x) - (a.x - b.x) * second) / scale, (first * (c.y - d.y) - (a.y - b.y) * second) / scale};
}

double DistanceToLine(Point at, Point a, Point b) {
  return std::abs((a.x - at.x) * (b.y - at.y) - (b.x - at.x) * (a.y - at.y)) / std::hypot(a.x - b.x, a.y - b.y);
}

class PolygonBase : public MafProblem {
 public:
  Points SampleFront(std::size_t count) const override {
    const Points grid = Grid(count, 2);
    Points points{objectives(), {}};
    std::vector<double> row(objectives());
    for (std::size_t i = 0; i < grid.rows(); ++i) {
      const double at[] = {2 * grid[i][0] - 1, 2 * grid[i][1] - 1};
      if (!Inside(corners_, {at[0], at[1]})) continue;
      Evaluate(at, row);
      points.Add(row);
    }
    return points;
  }

 protected:
  explicit PolygonBase(std::size_t objectives)
      : MafProblem(objectives, std::vector<double>(2, -10000), std::vector<double>(2, 10000)),
        corners_(RegularPolygon(objectives)) {}

  Point Corner(std::size_t k) const { return corners_[k % corners_.size()]; }
  bool InPolygon(Point at) const { return Inside(corners_, at); }

 private:
  Polygon corners_;
};

class Maf8 final : public PolygonBase {
 public:
  explicit Maf8(std::size_t objectives) : PolygonBase(objectives) {}

  void Evaluate(std::span<const double> x, std::span<double> f) const override {
    for (std::size_t k = 0; k < f.size(); ++k) f[k] = std::hypot(x[0] - Corner(k).x, x[1] - Corner(k).y);
  }
};

// Behind the point where the prolonged neighbours of a run of sides meet, a mirror image of those sides would be
// optimal as well; the region between the two is forbidden.
class Maf9 final : public PolygonBase {
 public:
  explicit Maf9(std::size_t objectives) : PolygonBase(objectives) {
    const auto longest = static_cast<std::size_t>(std::ceil(static_cast<double>(objectives) / 2 - 2));
    for (std::size_t sides = 1; sides <= longest; ++sides) {
      for (std::size_t head = 0; head < objectives; ++head) {
        const std::size_t tail = head + sides;
        const Point center = Intersection(Corner(head + objectives - 1), Corner(head), Corner(tail), Corner(tail + 1));
        Polygon region;
        for (std::size_t k = head; k <= tail; ++k) region.push_back(Corner(k));
        for (std::size_t k = head; k <= tail; ++k) {
          region.push_back({2 * center.x - Corner(k).x, 2 * center.y - Corner(k).y});
        }
        forbidden_.push_back(std::move(region));
      }
    }
  }

  void Repair(std::span<double> x, std::mt19937_64& random) const override {
    const auto unit = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
    while (Forbidden({x[0], x[1]})) {
      for (std::size_t i = 0; i < 2; ++i) x[i] = lower()[i] + unit() * (upper()[i] - lower()[i]);
    }
  }

  void Evaluate(std::span<const double> x, std::span<double> f) const override {
    for (std::size_t k = 0; k < f.size(); ++k) f[k] = DistanceToLine({x[0], x[1]}, Corner(k), Corner(k + 1));
  }

 private:
  bool Forbidden(Point at) const {
    if (InPolygon(at)) return false;
    for (const Polygon& region : forbidden_) {
      if (Inside(region, at)) return true;
    }
    return false;
  }

  std::vector<Polygon> forbidden_;
};

}  // namespace

std::unique_ptr<MafProblem> MakeMafOfPolygon(int number, std::size_t objectives) {
  if (number == 8) return std::make_unique<Maf8>(objectives);
  return std::make_unique<Maf9>(objectives);
}

}  // namespace stalloc::bench
