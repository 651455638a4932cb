#include "planner/size_laws.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace stalloc::planner {
namespace {

struct Point {
  Bytes x;
  Bytes y;
};

// The line through all points, if there is one that enough of them vouch for: three, or two where it goes through the
// origin.
std::optional<SizeLaw> LineThrough(const std::vector<Point>& points) {
  const auto [low, high] =
      std::minmax_element(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.x < b.x; });
  if (points.size() < 2 || low->x == high->x) return std::nullopt;
  __int128 rise = static_cast<__int128>(high->y) - low->y;
  __int128 run = high->x - low->x;
  const Bytes common = std::gcd(static_cast<Bytes>(rise < 0 ? -rise : rise), static_cast<Bytes>(run));
  rise /= common;
  run /= common;
  const __int128 addend = run * low->y - rise * low->x;
  constexpr __int128 kMost = std::numeric_limits<std::int64_t>::max();
  if (rise > kMost || -rise > kMost || addend > kMost || -addend > kMost) return std::nullopt;
  bool third = addend == 0;
  for (const Point& point : points) {
    if (rise * point.x + addend != run * point.y) return std::nullopt;
    third = third || (point.x != low->x && point.x != high->x);
  }
  if (!third) return std::nullopt;
  SizeLaw law;
  law.kind = SizeLaw::Kind::kExact;
  law.multiplier = static_cast<std::int64_t>(rise);
  law.addend = static_cast<std::int64_t>(addend);
  law.divisor = static_cast<std::int64_t>(run);
  return law;
}

bool Holds(const SizeLaw& law, const std::vector<Point>& points) {
  return std::all_of(points.begin(), points.end(), [&](const Point& p) { return law.At(p.x) == p.y; });
}

// The line of the points other than those at `limit`, cut off there.
std::optional<SizeLaw> CutOff(const std::vector<Point>& points, Bytes limit, bool above) {
  std::vector<Point> free;
  for (const Point& point : points) {
    if (point.y != limit) free.push_back(point);
  }
  std::optional<SizeLaw> law = LineThrough(free);
  if (!law) return std::nullopt;
  (above ? law->at_most : law->at_least) = limit;
  if (!Holds(*law, points)) return std::nullopt;
  return law;
}

// A multiple of x, rounded up to a power of two: the largest such grain, the steepest such multiple.
std::optional<SizeLaw> Rounded(const std::vector<Point>& points) {
  Bytes all = 0;
  for (const Point& point : points) all |= point.y;
  for (Bytes grain = all & -all; grain > 1; grain /= 2) {
    const Point* steepest = &points.front();
    for (const Point& point : points) {
      if (static_cast<__int128>(point.y) * steepest->x < static_cast<__int128>(steepest->y) * point.x) {
        steepest = &point;
      }
    }
    const Bytes common = std::gcd(steepest->x, steepest->y);
    SizeLaw law;
    law.kind = SizeLaw::Kind::kExact;
    law.multiplier = static_cast<std::int64_t>(steepest->y / common);
    law.divisor = static_cast<std::int64_t>(steepest->x / common);
    law.grain = grain;
    if (Holds(law, points)) return law;
  }
  return std::nullopt;
}

std::optional<SizeLaw> ExactLaw(const std::vector<Point>& points) {
  const auto [low, high] =
      std::minmax_element(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.y < b.y; });
  if (low->y == high->y) {
    SizeLaw law;
    law.at_most = low->y;
    return law;
  }
  std::optional<SizeLaw> law = LineThrough(points);
  if (!law) law = CutOff(points, high->y, true);
  if (!law) law = CutOff(points, low->y, false);
  if (!law) law = Rounded(points);
  return law;
}

SizeLaw Guess(const std::vector<Point>& points) {
  Point largest = points.front();
  for (const Point& point : points) {
    if (static_cast<__int128>(point.y) * largest.x > static_cast<__int128>(largest.y) * point.x) largest = point;
  }
  SizeLaw law;
  law.kind = SizeLaw::Kind::kGuess;
  law.multiplier = static_cast<std::int64_t>(largest.y);
  law.divisor = static_cast<std::int64_t>(largest.x);
  law.grain = 512;  // as CUDA's own allocators round
  // A largest size that comes at more than one x is a limit.
  const auto y_less = [](const Point& a, const Point& b) { return a.y < b.y; };
  const Point top = *std::max_element(points.begin(), points.end(), y_less);
  const auto at_limit = [&](const Point& p) { return p.y == top.y && p.x != top.x; };
  if (std::any_of(points.begin(), points.end(), at_limit)) law.at_most = top.y;
  return law;
}

std::vector<Point> PointsOf(const std::vector<std::vector<Bytes>>& examples, std::size_t x, std::size_t y) {
  std::vector<Point> points;
  for (const std::vector<Bytes>& example : examples) points.push_back({example[x], example[y]});
  return points;
}

}  // namespace

Bytes SizeLaw::At(Bytes x) const {
  if (kind == Kind::kConstant) return at_most;
  const __int128 scaled = static_cast<__int128>(multiplier) * x + addend;
  if (scaled <= 0) return at_least;
  const __int128 unit = static_cast<__int128>(divisor) * grain;
  const __int128 size = (scaled + unit - 1) / unit * grain;
  return std::clamp(size > at_most ? at_most : static_cast<Bytes>(size), at_least, at_most);
}

std::vector<Bytes> SizeLaws::Predict(const std::vector<Bytes>& values) const {
  std::vector<Bytes> sizes;
  sizes.reserve(laws.size());
  for (const SizeLaw& law : laws) sizes.push_back(law.At(values.empty() ? 0 : values[law.parameter]));
  return sizes;
}

std::size_t SizeLaws::Guesses() const {
  return static_cast<std::size_t>(
      std::count_if(laws.begin(), laws.end(), [](const SizeLaw& law) { return law.kind == SizeLaw::Kind::kGuess; }));
}

SizeLaws LearnSizes(const std::vector<std::vector<Bytes>>& examples, std::size_t early) {
  SizeLaws result;
  if (examples.empty()) return result;
  const std::size_t count = examples.front().size();
  const auto varies = [&](std::size_t i) {
    return std::any_of(examples.begin(), examples.end(), [&](const auto& e) { return e[i] != examples.front()[i]; });
  };
  std::vector<std::size_t> open;  // requests without a law
  result.laws.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    result.laws[i].at_most = examples.front()[i];
    if (varies(i)) open.push_back(i);
  }
  const std::vector<std::size_t> candidates(open.begin(),
                                            open.begin() + static_cast<std::ptrdiff_t>(std::min(early, open.size())));
  std::vector<std::size_t> chosen;
  while (!open.empty() && chosen.size() < 2) {
    std::size_t best = count;
    std::vector<std::pair<std::size_t, SizeLaw>> best_laws;
    for (const std::size_t p : candidates) {
      std::vector<std::pair<std::size_t, SizeLaw>> laws;
      for (const std::size_t i : open) {
        if (std::optional<SizeLaw> law = ExactLaw(PointsOf(examples, p, i))) laws.emplace_back(i, *law);
      }
      if (laws.size() > best_laws.size()) {
        best = p;
        best_laws = std::move(laws);
      }
    }
    if (best == count) break;
    for (auto& [i, law] : best_laws) {
      law.parameter = static_cast<std::uint32_t>(chosen.size());
      result.laws[i] = law;
      open.erase(std::find(open.begin(), open.end(), i));
    }
    chosen.push_back(best);
  }
  for (const std::size_t i : open) {
    if (!chosen.empty()) {
      result.laws[i] = Guess(PointsOf(examples, chosen.front(), i));
      continue;
    }
    result.laws[i].kind = SizeLaw::Kind::kGuess;  // nothing to go by: the largest seen
    for (const std::vector<Bytes>& example : examples) {
      result.laws[i].at_most = result.laws[i].at_least = std::max(result.laws[i].at_most, example[i]);
    }
  }
  if (chosen.size() == 2 && chosen[1] < chosen[0]) {
    std::swap(chosen[0], chosen[1]);
    for (SizeLaw& law : result.laws) {
      if (law.kind != SizeLaw::Kind::kConstant) law.parameter = 1 - law.parameter;
    }
  }
  result.parameters = std::move(chosen);
  return result;
}

}  // namespace stalloc::planner
