// Search over orders for instances of any size ("squeaky wheel optimisation", Joslin & Clements 1999): blocks are
// placed one after another below a ceiling; the one that does not fit is moved forward in the order and all is placed
// again.
//
// Success comes within a few tries or hardly ever, so the search goes in short laps (Gomes, Selman, Crato 1997): each
// begins anew from one of a list of greedy orders, a few blocks out of place. Laps are numbered, and a number says all
// about its lap: whoever runs it, on whatever thread, finds the same. Private to planner/; one object a thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "greedy.h"
#include "instance.h"
#include "occupancy.h"
#include "orders.h"

namespace stalloc::planner {

// So many laps begin from different orders, the best first for most training steps; the next as many from the same
// ones, and so on.
inline constexpr std::uint64_t kLapsPerRound = 12;

// How lap `number` places blocks.
Fit FitOfLap(std::uint64_t number);

class OrderSearch {
 public:
  // `instance` must outlive this.
  OrderSearch(const Instance& instance, std::uint64_t seed);

  // Lap `number`: the first placement at or below `ceiling`. `stop` is asked before each try.
  std::optional<Packing> Run(std::uint64_t number, Bytes ceiling, const std::function<bool()>& stop);

  const Order& order() const { return order_; }  // the one tried last

 private:
  // Places blocks in order until one reaches above the ceiling: its rank, or the order's length.
  std::size_t Place(Fit fit, Bytes ceiling, Packing* packing);
  void MoveForward(std::size_t rank);

  const Instance& instance_;
  const std::uint64_t seed_;
  std::vector<Order> starts_;  // per lap of a round; empty until it is first wanted
  Order order_;
  std::mt19937_64 random_;
  Occupancy occupancy_;
};

struct LapResult {
  std::size_t which = 0;  // of the numbers given
  Packing packing;
  Order order;  // in which its blocks were placed
};

// Runs these laps on as many threads as there are searches, all of the same instance and seed. The first in the list
// that finds a placement wins: the same for any number of threads unless `stop`, asked by all of them at once, says so
// first.
std::optional<LapResult> RunLaps(std::vector<OrderSearch>& searches, const std::vector<std::uint64_t>& numbers,
                                 Bytes ceiling, const std::function<bool()>& stop);

// Which laps are run when: from the order that did best, and from each of the others now and then.
class LapSchedule {
 public:
  // The laps to run next.
  std::vector<std::uint64_t> Next() const;
  // Of the laps that Next() gave, `numbers[which]` was the first that found a placement; npos: none did.
  void Report(const std::vector<std::uint64_t>& numbers, std::size_t which);

  static constexpr std::size_t npos = ~std::size_t{0};

 private:
  std::optional<std::uint64_t> favourite_;             // the start of the lap that found the last placement
  std::array<std::uint64_t, kLapsPerRound> rounds_{};  // that each start has behind it
};

}  // namespace stalloc::planner
