#include "order_search.h"

#include <algorithm>
#include <utility>

namespace stalloc::planner {

namespace {

constexpr int kFailuresBeforeFirstRestart = 60;

}  // namespace

OrderSearch::OrderSearch(const Instance& instance, Order start, Fit fit, std::uint64_t seed)
    : instance_(instance),
      start_(std::move(start)),
      fit_(fit),
      order_(start_),
      patience_(kFailuresBeforeFirstRestart),
      random_(seed),
      occupancy_(instance) {}

std::size_t OrderSearch::Place(Bytes ceiling, Packing* packing) {
  occupancy_.Clear();
  packing->height = 0;
  for (std::size_t rank = 0; rank < order_.size(); ++rank) {
    const std::uint32_t i = order_[rank];
    const Bytes offset = fit_ == Fit::kFirst ? occupancy_.FirstFit(i) : occupancy_.BestFit(i);
    const Bytes end = offset + instance_.blocks[i].size;
    if (end > ceiling) return rank;
    packing->offsets[i] = offset;
    packing->height = std::max(packing->height, end);
    occupancy_.Add(i, offset, end);
  }
  return order_.size();
}

// To the front, or to a random place before its own, nearer ones more often.
void OrderSearch::MoveForward(std::size_t rank) {
  if (rank == 0) return;
  std::size_t to = 0;
  if (random_() % 4 != 0) {
    const double unit = static_cast<double>(random_() >> 11) * 0x1p-53;
    to = static_cast<std::size_t>(static_cast<double>(rank) * (1 - unit * unit));
  }
  to = std::min(to, rank - 1);
  const auto at = order_.begin();
  std::rotate(at + static_cast<std::ptrdiff_t>(to), at + static_cast<std::ptrdiff_t>(rank),
              at + static_cast<std::ptrdiff_t>(rank) + 1);
}

std::optional<Packing> OrderSearch::Run(Bytes ceiling, int tries, const std::function<bool()>& stop) {
  Packing packing;
  packing.offsets.resize(instance_.size());
  for (int k = 0; k < tries && !stop(); ++k) {
    const std::size_t rank = Place(ceiling, &packing);
    if (rank == order_.size()) return packing;
    MoveForward(rank);
    if (++failures_ == patience_) {
      failures_ = 0;
      patience_ *= 2;
      order_ = start_;
      for (int swaps = 0; swaps < 10; ++swaps) MoveForward(random_() % order_.size());
    }
  }
  return std::nullopt;
}

}  // namespace stalloc::planner
