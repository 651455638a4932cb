#include "exact.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "exact_skyline.h"

namespace stalloc::planner {
namespace {

using Index = Skyline::Index;
constexpr Index kNone = static_cast<Index>(-1);
constexpr std::uint64_t kClosed = ~std::uint64_t{0};

class Search {
 public:
  Search(const Instance& instance, Bytes ceiling, const ExactStrategy& strategy, std::uint64_t max_nodes,
         const std::function<bool()>& stop)
      : instance_(instance),
        ceiling_(ceiling),
        strategy_(strategy),
        max_nodes_(max_nodes),
        stop_(stop),
        skyline_(instance, ceiling) {
    rank_.resize(instance.size());
    for (std::size_t r = 0; r < rank_.size(); ++r) rank_[strategy.preference[r]] = static_cast<Index>(r);
  }

  ExactResult Run() {
    ExactResult result;
    if (instance_.bound > ceiling_) {
      result.kind = ExactResult::Kind::kNone;
      return result;
    }
    std::vector<Index> all(instance_.size());
    std::iota(all.begin(), all.end(), 0);
    std::stable_sort(all.begin(), all.end(),
                     [&](Index a, Index b) { return instance_.blocks[a].first < instance_.blocks[b].first; });
    const bool found = skyline_.Begin() && SolveParts(all);
    result.nodes = nodes_;
    if (found) {
      result.kind = ExactResult::Kind::kFound;
      result.offsets = skyline_.Offsets();
    } else if (!gave_up_) {
      result.kind = ExactResult::Kind::kNone;
    }
    return result;
  }

 private:
  // How many branches a block's place is one of, where it is most certain that one of them holds: at a slot whose floor
  // it would lie on and that has little room to spare. kClosed: it may not be placed next.
  std::uint64_t Branches(Index i) const {
    std::uint64_t fewest = instance_.size() + strategy_.spare_penalty;
    if (skyline_.Undercut(i)) return kClosed;
    const Bytes offset = skyline_.Support(i);
    const Block& block = instance_.blocks[i];
    for (Slots t = block.first;; t = t + 1 == instance_.slots ? 0 : t + 1) {
      const Skyline::View& view = skyline_.At(t);
      if (offset >= view.end) return kClosed;
      if (view.floor == offset) {
        const Bytes spare = ceiling_ - skyline_.Left(t) - offset;
        fewest = std::min<std::uint64_t>(fewest, (spare == 0 ? 0 : strategy_.spare_penalty) + view.ties);
      }
      if (t == block.last) return fewest;
    }
  }

  using Key = std::tuple<std::uint64_t, std::uint64_t, Index>;  // the least one is placed next

  Key KeyOf(Index i) const {
    const std::uint64_t branches = Branches(i);
    if (branches == kClosed) return Key(kClosed, 0, 0);
    switch (strategy_.first) {
      case ExactStrategy::First::kFewestBranches:
        return Key(branches, skyline_.Support(i), rank_[i]);
      case ExactStrategy::First::kLowest:
        return Key(skyline_.Support(i), branches, rank_[i]);
      case ExactStrategy::First::kPreferredOfLowest:
        break;
    }
    return Key(skyline_.Support(i), 0, rank_[i]);
  }

  // A block of `part` that rests on what is placed, with nothing left that could come to lie below it.
  Index Next(const std::vector<Index>& part) const {
    Index next = kNone;
    Key best(kClosed, 0, 0);
    for (const Index i : part) {
      if (skyline_.Refused(i)) continue;
      const Key key = KeyOf(i);
      if (key >= best || skyline_.OutOfOrder(i)) continue;
      best = key;
      next = i;
    }
    return next;
  }

  // Places all blocks of `part`, which are connected in time.
  bool SolvePart(const std::vector<Index>& part) {
    std::vector<Index> rest;
    for (;;) {
      if (++nodes_ >= max_nodes_ || ((nodes_ & 63) == 0 && stop_())) gave_up_ = true;
      if (gave_up_) return false;
      if (!skyline_.LiftRefused(part)) return false;
      const Index next = Next(part);
      if (next == kNone) return false;
      const std::size_t mark = skyline_.Mark();
      bool splits = false;
      if (skyline_.Place(next, &splits)) {
        rest.clear();
        for (const Index other : part) {
          if (other != next) rest.push_back(other);
        }
        if (splits ? SolveParts(rest) : rest.empty() || SolvePart(rest)) return true;
      }
      skyline_.TakeBack(mark);
      if (gave_up_ || !skyline_.Refuse(next, part)) return false;
    }
  }

  // Cuts the blocks, sorted by first slot, where none of them crosses from one slot to the next.
  bool SolveParts(const std::vector<Index>& blocks) {
    std::vector<std::vector<Index>> parts;
    if (std::any_of(blocks.begin(), blocks.end(), [&](Index i) { return skyline_.Extent(i).Wraps(); })) {
      parts.push_back(blocks);
    } else {
      Slots reach = -1;
      for (const Index i : blocks) {
        if (instance_.blocks[i].first > reach) parts.emplace_back();
        parts.back().push_back(i);
        reach = std::max(reach, skyline_.Extent(i).last);
      }
    }
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    const std::size_t mark = skyline_.Mark();
    for (const std::vector<Index>& part : parts) {
      if (SolvePart(part)) continue;
      skyline_.TakeBack(mark);
      return false;
    }
    return true;
  }

  const Instance& instance_;
  const Bytes ceiling_;
  const ExactStrategy& strategy_;
  const std::uint64_t max_nodes_;
  const std::function<bool()>& stop_;

  Skyline skyline_;
  std::vector<Index> rank_;  // by preference
  std::uint64_t nodes_ = 0;
  bool gave_up_ = false;
};

}  // namespace

ExactResult SearchExactly(const Instance& instance, Bytes ceiling, const ExactStrategy& strategy,
                          std::uint64_t max_nodes, const std::function<bool()>& stop) {
  return Search(instance, ceiling, strategy, max_nodes, stop).Run();
}

}  // namespace stalloc::planner
