#include "variation.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace stalloc::planner {
namespace {

constexpr double kIndex = 20;  // of both distributions

}  // namespace

Variation::Variation(std::vector<double> lower, std::vector<double> upper, std::uint64_t seed)
    : lower_(std::move(lower)), upper_(std::move(upper)), random_(seed) {}

// Not std::uniform_real_distribution, whose numbers differ between libraries.
double Variation::Unit() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

std::size_t Variation::Below(std::size_t count) {
  return std::min(count - 1, static_cast<std::size_t>(Unit() * static_cast<double>(count)));
}

void Variation::Shuffle(std::span<std::uint32_t> items) {
  for (std::size_t left = items.size(); left > 1; --left) std::swap(items[left - 1], items[Below(left)]);
}

std::vector<double> Variation::RandomPoint() {
  std::vector<double> point(lower_.size());
  for (std::size_t i = 0; i < point.size(); ++i) point[i] = lower_[i] + Unit() * (upper_[i] - lower_[i]);
  return point;
}

void Variation::Cross(std::vector<double>* a, std::vector<double>* b) {
  for (std::size_t i = 0; i < lower_.size(); ++i) {
    if (Unit() < 0.5) continue;
    const double unit = Unit();
    double spread = unit <= 0.5 ? std::pow(2 * unit, 1 / (kIndex + 1)) : std::pow(2 - 2 * unit, -1 / (kIndex + 1));
    if (Unit() < 0.5) spread = -spread;
    const double middle = ((*a)[i] + (*b)[i]) / 2;
    const double half = spread * ((*a)[i] - (*b)[i]) / 2;
    (*a)[i] = std::clamp(middle + half, lower_[i], upper_[i]);
    (*b)[i] = std::clamp(middle - half, lower_[i], upper_[i]);
  }
}

void Variation::Mutate(std::vector<double>* point) {
  const double rate = 1 / static_cast<double>(lower_.size());
  for (std::size_t i = 0; i < lower_.size(); ++i) {
    const double range = upper_[i] - lower_[i];
    if (Unit() >= rate || range <= 0) continue;
    double& value = (*point)[i];
    const double unit = Unit();
    const bool down = unit <= 0.5;
    const double room = (down ? value - lower_[i] : upper_[i] - value) / range;
    const double far = std::pow(1 - room, kIndex + 1);
    const double share = down ? 2 * unit : 2 - 2 * unit;
    const double step = 1 - std::pow(share + (1 - share) * far, 1 / (kIndex + 1));
    value = std::clamp(value + (down ? -step : step) * range, lower_[i], upper_[i]);
  }
}

void Variation::MutateFar(std::vector<double>* point, double tail) {
  const double rate = 1 / static_cast<double>(lower_.size());
  const auto mutate = [&](std::size_t i) {
    double& value = (*point)[i];
    const double old = value;
    const double step = 0.5 * (Unit() - 0.5) * (1 - std::pow(1 - Unit(), -tail));
    value += step * (upper_[i] - lower_[i]);
    // What leaves the box lands between the old value and the edge.
    if (value > upper_[i]) value = upper_[i] - 0.5 * Unit() * (upper_[i] - old);
    if (value < lower_[i]) value = lower_[i] + 0.5 * Unit() * (old - lower_[i]);
  };
  bool any = false;
  for (std::size_t i = 0; i < lower_.size(); ++i) {
    if (Unit() >= rate) continue;
    mutate(i);
    any = true;
  }
  if (!any) mutate(Below(lower_.size()));
}

}  // namespace stalloc::planner
