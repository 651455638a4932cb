// Search over orders for instances of any size ("squeaky wheel optimisation", Joslin & Clements 1999): blocks are
// placed first fit below a ceiling; the one that does not fit is moved forward in the order and all is placed again.
// Blocks of the most loaded moments come first, so a try that fails fails early. Private to planner/; one object a
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <random>

#include "greedy.h"
#include "instance.h"
#include "occupancy.h"
#include "orders.h"

namespace stalloc::planner {

class OrderSearch {
 public:
  OrderSearch(const Instance& instance, Order start, Fit fit, std::uint64_t seed);

  // Up to `tries` placements; the first one at or below `ceiling` ends the call. `stop` is asked before each.
  std::optional<Packing> Run(Bytes ceiling, int tries, const std::function<bool()>& stop);

 private:
  // Places blocks in order until one reaches above the ceiling: its rank, or the order's length.
  std::size_t Place(Bytes ceiling, Packing* packing);
  void MoveForward(std::size_t rank);

  const Instance& instance_;
  const Order start_;
  const Fit fit_;
  Order order_;
  int failures_ = 0;  // since the order was taken from start_
  int patience_;      // so many are borne before it is taken again; twice as many each time
  std::mt19937_64 random_;
  Occupancy occupancy_;
};

}  // namespace stalloc::planner
