#include "orders.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>

namespace stalloc::planner {
namespace {

// For every block the largest load among its slots, by a sparse table of range maxima.
std::vector<Bytes> PeakOfBlocks(const Instance& instance) {
  std::vector<std::vector<Bytes>> table{instance.load};
  for (Slots width = 1; 2 * width <= instance.slots; width *= 2) {
    const std::vector<Bytes>& below = table.back();
    std::vector<Bytes> level(instance.slots - 2 * width + 1);
    for (std::size_t t = 0; t < level.size(); ++t) level[t] = std::max(below[t], below[t + width]);
    table.push_back(std::move(level));
  }
  std::vector<Bytes> peaks(instance.size(), 0);
  for (std::size_t i = 0; i < instance.size(); ++i) {
    instance.ForPieces(instance.blocks[i].first, instance.blocks[i].last, [&](Slots first, Slots last) {
      const int level = std::bit_width(static_cast<unsigned>(last - first + 1)) - 1;
      peaks[i] = std::max({peaks[i], table[level][first], table[level][last + 1 - (Slots{1} << level)]});
    });
  }
  return peaks;
}

template <typename Key>
Order SortedBy(const Instance& instance, Key key) {
  Order order(instance.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return std::tuple(key(a), a) < std::tuple(key(b), b); });
  return order;
}

}  // namespace

std::string_view NameOf(OrderRule rule) {
  switch (rule) {
    case OrderRule::kSize:
      return "size";
    case OrderRule::kSizeLength:
      return "size-length";
    case OrderRule::kArea:
      return "area";
    case OrderRule::kLength:
      return "length";
    case OrderRule::kLoad:
      return "load";
    case OrderRule::kLoadLength:
      return "load-length";
    case OrderRule::kBegin:
      return "begin";
    case OrderRule::kEnd:
      return "end";
  }
  return "";
}

Order MakeOrder(const Instance& instance, OrderRule rule) {
  const std::vector<Block>& blocks = instance.blocks;
  const auto falling_size = [&](std::uint32_t i) { return ~blocks[i].size; };
  const auto falling_length = [&](std::uint32_t i) { return -instance.Length(blocks[i]); };
  switch (rule) {
    case OrderRule::kSize:
      return SortedBy(instance, [&](std::uint32_t i) { return std::tuple(falling_size(i), blocks[i].first); });
    case OrderRule::kSizeLength:
      return SortedBy(instance, [&](std::uint32_t i) { return std::tuple(falling_size(i), falling_length(i)); });
    case OrderRule::kArea:
      return SortedBy(instance, [&](std::uint32_t i) {
        return -static_cast<double>(blocks[i].size) * static_cast<double>(instance.Length(blocks[i]));
      });
    case OrderRule::kLength:
      return SortedBy(instance, [&](std::uint32_t i) { return std::tuple(falling_length(i), falling_size(i)); });
    case OrderRule::kLoad: {
      const std::vector<Bytes> peaks = PeakOfBlocks(instance);
      return SortedBy(instance, [&](std::uint32_t i) { return std::tuple(~peaks[i], falling_size(i)); });
    }
    case OrderRule::kLoadLength: {
      const std::vector<Bytes> peaks = PeakOfBlocks(instance);
      return SortedBy(instance, [&](std::uint32_t i) { return std::tuple(~peaks[i], falling_length(i)); });
    }
    case OrderRule::kBegin:
      return SortedBy(instance, [&](std::uint32_t i) { return std::tuple(blocks[i].first, falling_length(i)); });
    case OrderRule::kEnd:
      return SortedBy(instance, [&](std::uint32_t i) { return std::tuple(-blocks[i].last, falling_length(i)); });
  }
  return {};
}

}  // namespace stalloc::planner
