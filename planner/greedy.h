// Greedy placement: blocks in a given order, each at the first or the best fitting gap. Private to planner/.
#pragma once

#include <functional>
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

// Places all blocks. Gives up, with nullopt, as soon as a block reaches above `ceiling`, or `stop`, asked now and then,
// says so. Uses and clears `occupancy`.
std::optional<Packing> PlaceInOrder(const Instance& instance, const Order& order, Fit fit, Bytes ceiling,
                                    Occupancy& occupancy, const std::function<bool()>& stop = {});

}  // namespace stalloc::planner
