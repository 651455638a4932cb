// Long stretches of time cut into segments that are placed one by one.
//
// Training goes in steps, and between two steps little lives but what stands for long (weights, optimizer state). So
// time is cut where few bytes live on, the blocks that live across a cut are placed first, at the bottom, and each
// segment's own blocks are placed around them: many small instances instead of a large one, on several threads, and
// only those that are still too high are tried again. What was good for one segment is tried first on the next, for
// steps resemble one another; nothing depends on their being equal.
//
// Private to planner/; called by one thread at a time, starts threads of its own and joins them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "greedy.h"
#include "instance.h"
#include "order_search.h"
#include "orders.h"

namespace stalloc::planner {

class Segments {
 public:
  // `instance`, which must outlive this, is straight (no block wraps) and has one stream.
  Segments(const Instance& instance, std::uint64_t seed, unsigned threads);

  // 0 or 1: there is no good place for a cut, and nothing to be gained from the calls below.
  std::size_t size() const { return segments_.size(); }

  // A first placement of everything: greedy, with more than one pass only for segments above `wanted`. Never cut short.
  void Place(Bytes wanted);
  // Lowers segments above `ceiling` to it, until one of them cannot be after a round of laps. The highest one comes
  // first and has all threads; what does well there is tried first on the others. How many were lowered.
  std::size_t Lower(Bytes ceiling, const std::function<bool()>& stop);

  const std::vector<Bytes>& offsets() const { return offsets_; }  // of all blocks of the instance

 private:
  struct Segment {
    Instance instance;                  // fixed: what crosses
    std::vector<std::uint32_t> blocks;  // those of `instance`, as numbered in the whole one
    Bytes height = kUnlimited;
    LapSchedule schedule;
  };
  struct Found {
    std::optional<OrderRule> rule;  // of the greedy pass that was as low as wanted
    std::optional<Order> order;     // or the order that was
    Fit fit = Fit::kFirst;
  };

  void Cut(std::vector<std::uint32_t> blocks, Slots begin, Slots end, std::vector<Slots>* cuts) const;
  void PlaceCrossing(const std::vector<Slots>& cuts);
  void Keep(Segment& segment, const Packing& packing);
  Found PlaceGreedily(Segment& segment, Bytes wanted, std::size_t passes);
  Found LowerOne(Segment& segment, unsigned threads, Bytes ceiling, const std::function<bool()>& stop);
  void ForAll(const std::vector<Segment*>& segments, const std::function<Found(Segment&)>& work,
              const std::function<bool(std::size_t, std::size_t)>& go_on);
  void Learn(Found found);

  const Instance& instance_;
  const std::uint64_t seed_;
  const unsigned threads_;
  std::vector<Segment> segments_;
  std::vector<Bytes> offsets_;
  // What did well so far; changes only between batches of segments, so that it does not depend on threads.
  std::vector<OrderRule> rules_;                    // of greedy passes, the one that was good last first
  std::vector<std::pair<Order, Fit>> good_orders_;  // of segments of any size, the last one first
};

}  // namespace stalloc::planner
