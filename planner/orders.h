// The orders in which a greedy solver may place blocks. Private to planner/; thread-safe.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "instance.h"

namespace stalloc::planner {

using Order = std::vector<std::uint32_t>;  // block indices, first placed first

enum class OrderRule {
  kSize,        // largest first, earlier begin first among equals
  kSizeLength,  // largest first, longest-lived first among equals
  kArea,        // size x lifetime, largest first ("time-memory product")
  kLength,      // longest-lived first, larger first among equals
  kLoad,        // blocks of the most loaded moment first, larger first among equals
  kLoadLength,  // blocks of the most loaded moment first, longest-lived first among equals
  kBegin,       // in order of time, as an online allocator would
  kEnd,         // by falling end, as an online allocator would if time ran backwards
};

inline constexpr OrderRule kOrderRules[] = {OrderRule::kSize,  OrderRule::kArea,       OrderRule::kLength,
                                            OrderRule::kLoad,  OrderRule::kLoadLength, OrderRule::kSizeLength,
                                            OrderRule::kBegin, OrderRule::kEnd};

std::string_view NameOf(OrderRule rule);
Order MakeOrder(const Instance& instance, OrderRule rule);

}  // namespace stalloc::planner
