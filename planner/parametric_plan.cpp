#include "planner/parametric_plan.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "greedy.h"
#include "instance.h"
#include "occupancy.h"
#include "planner/problem_check.h"
#include "planner/validate.h"

namespace stalloc::planner {
namespace {

constexpr std::size_t kNearest = 2;  // examples whose orders are tried

// Placing first fit in the order of rising offsets reproduces a placement, or lowers it.
Order ByOffset(const Placement& placement) {
  Order order(placement.offsets.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return placement.offsets[a] < placement.offsets[b]; });
  return order;
}

}  // namespace

class ParametricPlan::State {
 public:
  State(const Problem& shape, const std::vector<std::vector<Bytes>>& examples, const SolveOptions& options)
      : laws_(LearnSizes(examples)), problem_(shape) {
    problem_.capacity_bytes = kUnlimited;
    for (const std::vector<Bytes>& sizes : examples) {
      SetSizes(sizes);
      Example example;
      for (const std::size_t i : laws_.parameters) example.values.push_back(sizes[i]);
      example.order = ByOffset(planner::Solve(problem_, options).placement);
      examples_.push_back(std::move(example));
    }
    // Slots and reach follow from lifetimes alone, so one instance serves all sizes.
    instance_ = MakeInstance(problem_);
    occupancy_.emplace(instance_);
  }

  const SizeLaws& laws() const { return laws_; }

  PredictedPlan Place(const std::vector<Bytes>& values) {
    PredictedPlan plan;
    plan.sizes = laws_.Predict(values);
    SetSizes(plan.sizes);
    if (FindMalformed(problem_)) return plan;
    for (std::size_t i = 0; i < plan.sizes.size(); ++i) {
      instance_.blocks[i].size = (plan.sizes[i] + problem_.alignment_bytes - 1) & ~(problem_.alignment_bytes - 1);
    }
    std::optional<Packing> best;
    for (const std::size_t k : Nearest(values)) {
      const Bytes ceiling = best ? best->height - 1 : kUnlimited;
      auto packing = PlaceInOrder(instance_, examples_[k].order, Fit::kFirst, ceiling, *occupancy_);
      if (packing) best = std::move(packing);
    }
    plan.placement = MakePlacement(problem_, std::move(best->offsets));
    return plan;
  }

 private:
  struct Example {
    std::vector<Bytes> values;  // of the parameters
    Order order;
  };

  void SetSizes(const std::vector<Bytes>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) problem_.requests[i].size_bytes = sizes[i];
  }

  // The examples by distance of their first parameters, as far as they are tried.
  std::vector<std::size_t> Nearest(const std::vector<Bytes>& values) const {
    std::vector<std::size_t> order(examples_.size());
    std::iota(order.begin(), order.end(), 0);
    const auto distance = [&](std::size_t k) -> Bytes {
      if (values.empty()) return 0;
      const Bytes there = examples_[k].values.front();
      return there > values.front() ? there - values.front() : values.front() - there;
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return distance(a) < distance(b); });
    order.resize(std::min(order.size(), kNearest));
    return order;
  }

  SizeLaws laws_;
  Problem problem_;
  std::vector<Example> examples_;
  Instance instance_;
  std::optional<Occupancy> occupancy_;
};

ParametricPlan::ParametricPlan(const Problem& shape, const std::vector<std::vector<Bytes>>& examples,
                               const SolveOptions& options)
    : state_(std::make_unique<State>(shape, examples, options)) {}
ParametricPlan::~ParametricPlan() = default;
ParametricPlan::ParametricPlan(ParametricPlan&&) noexcept = default;
ParametricPlan& ParametricPlan::operator=(ParametricPlan&&) noexcept = default;

const SizeLaws& ParametricPlan::laws() const { return state_->laws(); }

PredictedPlan ParametricPlan::Place(const std::vector<Bytes>& values) { return state_->Place(values); }

}  // namespace stalloc::planner
