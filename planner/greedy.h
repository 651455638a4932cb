// Greedy placement: blocks in a given order, each at the first or the best fitting gap. Private to planner/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "instance.h"
#include "occupancy.h"
#include "orders.h"

namespace stalloc::planner {

enum class Fit { kFirst, kBest };

struct Packing {
  std::vector<Bytes> offsets;
  Bytes height = 0;  // in rounded sizes
  std::string method;
};

// Places all blocks. Gives up, with nullopt, as soon as a block reaches above `ceiling`. Uses and clears `occupancy`.
std::optional<Packing> PlaceInOrder(const Instance& instance, const Order& order, Fit fit, Bytes ceiling,
                                    Occupancy& occupancy);

}  // namespace stalloc::planner
