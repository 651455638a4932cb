#include "exact.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace stalloc::planner {
namespace {

using Index = std::uint32_t;
constexpr Index kNone = static_cast<Index>(-1);
constexpr std::uint64_t kClosed = ~std::uint64_t{0};

class Search {
 public:
  Search(const Instance& instance, Bytes ceiling, const ExactStrategy& strategy, std::uint64_t max_nodes,
         const std::function<bool()>& stop)

      : instance_(instance), ceiling_(ceiling), strategy_(strategy), max_nodes_(max_nodes), stop_(stop) {
    const std::size_t n = instance.size();
    rank_.resize(n);
    for (std::size_t r = 0; r < n; ++r) rank_[strategy.preference[r]] = static_cast<Index>(r);
    lowest_.assign(n, 0);
    placed_.assign(n, false);
    support_.assign(n, 0);
    left_ = instance.load;
    crossing_.assign(instance.slots, 0);
    at_.resize(instance.slots);
    place_in_slot_.resize(n);
    queued_.assign(instance.slots, false);
    top_of_class_.assign(n, 0);
    for (Index i = 0; i < n; ++i) {
      ForSlots(i, [&](Slots t) {
        place_in_slot_[i].push_back(static_cast<Index>(at_[t].size()));
        at_[t].push_back(i);
      });
      ForCrossings(i, [&](Slots t) { ++crossing_[t]; });
    }
    left_in_slot_.resize(instance.slots);
    for (Slots t = 0; t < instance.slots; ++t) left_in_slot_[t] = at_[t].size();
    view_.assign(instance.slots, {0, 0, 0});
    for (const Block& block : instance.blocks) unit_ = std::gcd(unit_, block.size);
    neighbours_.resize(n);
    for (Index i = 0; i < n; ++i) {
      for (Index k = 0; k < n; ++k) {
        if (i != k && Meet(instance.blocks[i], instance.blocks[k])) neighbours_[i].push_back(k);
      }
    }
    FindClasses();
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
    for (Slots t = 0; t < instance_.slots; ++t) Enqueue(t);
    const bool found = Propagate() && SolveParts(all);
    result.nodes = nodes_;
    if (found) {
      result.kind = ExactResult::Kind::kFound;
      result.offsets = support_;
    } else if (!gave_up_) {
      result.kind = ExactResult::Kind::kNone;
    }
    return result;
  }

 private:
  template <typename Visit>
  void ForSlots(Index i, Visit visit) const {
    const Block& block = instance_.blocks[i];
    Slots t = block.first;
    for (;;) {
      visit(t);
      if (t == block.last) return;
      t = t + 1 == instance_.slots ? 0 : t + 1;
    }
  }

  // Slots t such that the block lives in t and in the next one.
  template <typename Visit>
  void ForCrossings(Index i, Visit visit) const {
    const Block& block = instance_.blocks[i];
    for (Slots t = block.first; t != block.last; t = t + 1 == instance_.slots ? 0 : t + 1) visit(t);
  }

  // Blocks with the same lifetime make a class, in it sorted by size: before_[i] is the one that must come before i
  // where the two touch.
  void FindClasses() {
    class_.resize(instance_.size());
    std::vector<Index> order(instance_.size());
    std::iota(order.begin(), order.end(), 0);
    const auto life = [&](Index i) { return std::pair(instance_.blocks[i].first, instance_.blocks[i].last); };
    std::sort(order.begin(), order.end(),
              [&](Index a, Index b) { return std::pair(life(a), a) < std::pair(life(b), b); });
    for (std::size_t r = 0; r < order.size(); ++r) {
      class_[order[r]] = r > 0 && life(order[r]) == life(order[r - 1]) ? class_[order[r - 1]] : order[r];
    }
  }

  // --- changes that are taken back when a branch fails

  // What is left in a slot.
  struct View {
    Bytes floor;  // the lowest lowest_
    Bytes end;    // the lowest support_ + size
    Index ties;   // blocks at the floor
  };

  struct Undo {
    enum class What : std::uint8_t { kSupport, kLowest, kPlaced, kView } what;
    Index index;
    Bytes value;   // kSupport, kLowest, kView (floor): as before
    Bytes end;     // kView
    Index holder;  // kPlaced: top_of_class_ as before; kView: ties
  };

  void TakeBack(std::size_t mark) {
    while (trail_.size() > mark) {
      const Undo& undo = trail_.back();
      switch (undo.what) {
        case Undo::What::kSupport:
          support_[undo.index] = undo.value;
          break;
        case Undo::What::kLowest:
          lowest_[undo.index] = undo.value;
          break;
        case Undo::What::kView:
          view_[undo.index] = {undo.value, undo.end, undo.holder};
          break;
        case Undo::What::kPlaced:
          Unplace(undo.index, undo.holder);
          break;
      }
      trail_.pop_back();
    }
  }

  void Unplace(Index i, Index holder) {
    placed_[i] = false;
    top_of_class_[class_[i]] = holder;
    ForSlots(i, [&](Slots t) {
      left_[t] += instance_.blocks[i].size;
      ++left_in_slot_[t];  // it still lies just behind the end of the list
    });
    ForCrossings(i, [&](Slots t) { ++crossing_[t]; });
  }

  // --- inference

  void Enqueue(Slots t) {
    if (!queued_[t]) {
      queued_[t] = true;
      queue_.push_back(t);
    }
  }

  void RaiseLowest(Index i, Bytes height) {
    trail_.push_back({Undo::What::kLowest, i, lowest_[i], 0, 0});
    lowest_[i] = height;
    ForSlots(i, [&](Slots t) { Enqueue(t); });
  }

  bool Propagate() {
    bool fits = true;
    for (std::size_t head = 0; head < queue_.size(); ++head) {
      const Slots t = queue_[head];
      queued_[t] = false;
      if (fits) fits = Visit(t);
    }
    queue_.clear();
    return fits;
  }

  // Looks at a slot again after a change: its floor is the lowest offset that one of its blocks may have, and what is
  // left of it must fit above. (Counting from each block's lowest offset on, as one-machine bounds do, cut no further
  // branch of A-K.)
  bool Visit(Slots t) {
    const std::size_t count = left_in_slot_[t];
    if (count == 0) return true;
    const Index* const blocks = at_[t].data();
    View view{kUnlimited, kUnlimited, 0};
    for (std::size_t k = 0; k < count; ++k) {
      const Index i = blocks[k];
      const Bytes release = lowest_[i];
      view.end = std::min(view.end, support_[i] + instance_.blocks[i].size);
      if (release < view.floor) {
        view.floor = release;
        view.ties = 0;
      }
      view.ties += release == view.floor;
    }
    if (view.floor + left_[t] > ceiling_) return false;
    trail_.push_back({Undo::What::kView, static_cast<Index>(t), view_[t].floor, view_[t].end, view_[t].ties});
    view_[t] = view;
    return true;
  }

  // --- the tree

  // Puts i on its support. *splits: no block left crosses some slot any more.
  bool Place(Index i, bool* splits) {
    const Bytes top = support_[i] + instance_.blocks[i].size;
    trail_.push_back({Undo::What::kPlaced, i, 0, 0, top_of_class_[class_[i]]});
    placed_[i] = true;
    top_of_class_[class_[i]] = i + 1;
    std::size_t nth = 0;
    ForSlots(i, [&](Slots t) {
      std::vector<Index>& list = at_[t];
      const Index last = static_cast<Index>(--left_in_slot_[t]);
      const Index here = place_in_slot_[i][nth];
      if (here != last) {
        const Index other = list[last];
        std::swap(list[here], list[last]);
        place_in_slot_[i][nth] = last;
        place_in_slot_[other][SlotOrdinal(other, t)] = here;
      }
      ++nth;
      left_[t] -= instance_.blocks[i].size;
      Enqueue(t);
    });
    for (const Index other : neighbours_[i]) {
      if (placed_[other] || support_[other] >= top) continue;
      trail_.push_back({Undo::What::kSupport, other, support_[other], 0, 0});
      support_[other] = top;
      if (lowest_[other] < top) {
        RaiseLowest(other, top);
      } else {
        ForSlots(other, [&](Slots t) { Enqueue(t); });
      }
    }
    ForCrossings(i, [&](Slots t) { *splits |= --crossing_[t] == 0; });
    return Propagate();
  }

  std::size_t SlotOrdinal(Index i, Slots t) const {
    const Slots first = instance_.blocks[i].first;
    return static_cast<std::size_t>(t >= first ? t - first : t + instance_.slots - first);
  }

  // Whether i would lie on a smaller block of the same lifetime: the two belong the other way round.
  bool OutOfOrder(Index i) const {
    const Index holder = top_of_class_[class_[i]];
    if (holder == 0) return false;
    const Index below = holder - 1;
    if (support_[below] + instance_.blocks[below].size != support_[i]) return false;
    return instance_.blocks[below].size < instance_.blocks[i].size;
  }

  // How many branches a block's place is one of, where it is most certain that one of them holds: at a slot whose floor
  // it would lie on and that has little room to spare. kClosed: it may not be placed next.
  std::uint64_t Branches(Index i) const {
    std::uint64_t fewest = instance_.size() + strategy_.spare_penalty;
    const Bytes offset = support_[i];
    const Block& block = instance_.blocks[i];
    for (Slots t = block.first;; t = t + 1 == instance_.slots ? 0 : t + 1) {
      const View& view = view_[t];
      if (offset >= view.end) return kClosed;
      if (view.floor == offset) {
        const Bytes spare = ceiling_ - left_[t] - offset;
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
        return Key(branches, support_[i], rank_[i]);
      case ExactStrategy::First::kLowest:
        return Key(support_[i], branches, rank_[i]);
      case ExactStrategy::First::kPreferredOfLowest:
        break;
    }
    return Key(support_[i], 0, rank_[i]);
  }

  // Places all blocks of `part`, which are connected in time.
  bool SolvePart(const std::vector<Index>& part) {
    if (++nodes_ >= max_nodes_ || ((nodes_ & 255) == 0 && stop_())) gave_up_ = true;
    std::vector<Index> rest;
    while (!gave_up_) {
      // A block that rests on what is placed, with nothing left that could come to lie below it.
      Index next = kNone;
      Key best(kClosed, 0, 0);
      for (const Index i : part) {
        if (support_[i] != lowest_[i]) continue;
        const Key key = KeyOf(i);
        if (key >= best || OutOfOrder(i)) continue;
        best = key;
        next = i;
      }
      if (next == kNone) return false;
      const std::size_t mark = trail_.size();
      bool splits = false;
      if (Place(next, &splits)) {
        rest.clear();
        for (const Index other : part) {
          if (other != next) rest.push_back(other);
        }
        if (splits ? SolveParts(rest) : rest.empty() || SolvePart(rest)) return true;
      }
      TakeBack(mark);
      // It does not lie here: it, and its twins, come higher and rest on something that is not placed yet.
      const Bytes above = support_[next] + unit_;
      for (const Index i : part) {
        if (class_[i] == class_[next] && instance_.blocks[i].size == instance_.blocks[next].size &&
            lowest_[i] < above) {
          RaiseLowest(i, above);
        }
      }
      if (!Propagate()) return false;
    }
    return false;
  }

  // Cuts the blocks, sorted by first slot, where none of them crosses from one slot to the next.
  bool SolveParts(const std::vector<Index>& blocks) {
    std::vector<std::vector<Index>> parts;
    if (std::any_of(blocks.begin(), blocks.end(), [&](Index i) { return instance_.blocks[i].Wraps(); })) {
      parts.push_back(blocks);
    } else {
      Slots reach = -1;
      for (const Index i : blocks) {
        if (instance_.blocks[i].first > reach) parts.emplace_back();
        parts.back().push_back(i);
        reach = std::max(reach, instance_.blocks[i].last);
      }
    }
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    const std::size_t mark = trail_.size();
    for (const std::vector<Index>& part : parts) {
      if (SolvePart(part)) continue;
      TakeBack(mark);
      return false;
    }
    return true;
  }

  const Instance& instance_;
  const Bytes ceiling_;
  const ExactStrategy& strategy_;
  const std::uint64_t max_nodes_;
  const std::function<bool()>& stop_;

  std::vector<Index> rank_;          // by preference
  std::vector<Index> class_;         // of the same lifetime: the index of its first block
  std::vector<Index> top_of_class_;  // the block of the class placed last, plus one
  std::vector<Bytes> support_;  // top of the placed blocks below: where a block that is left would come to rest; the
                                // offset of a placed one
  std::vector<Bytes> lowest_;   // of a block that is left: no placement of the branch has it lower; >= support_
  std::vector<std::vector<Index>> neighbours_;  // per block: those that live together with it
  std::vector<View> view_;                      // per slot
  std::vector<char> placed_;
  Bytes unit_ = 0;                      // every offset is a multiple of it: the greatest common divisor of the sizes
  std::vector<Bytes> left_;             // per slot: bytes of blocks left
  std::vector<std::int32_t> crossing_;  // per slot: blocks left that live in the next one, too
  std::vector<std::vector<Index>> at_;  // per slot: blocks, those left first
  std::vector<std::size_t> left_in_slot_;
  std::vector<std::vector<Index>> place_in_slot_;  // per block and slot of its life: where it stands in at_
  std::vector<Undo> trail_;
  std::vector<Slots> queue_;
  std::vector<char> queued_;
  std::uint64_t nodes_ = 0;
  bool gave_up_ = false;
};

}  // namespace

ExactResult SearchExactly(const Instance& instance, Bytes ceiling, const ExactStrategy& strategy,
                          std::uint64_t max_nodes, const std::function<bool()>& stop) {
  return Search(instance, ceiling, strategy, max_nodes, stop).Run();
}

}  // namespace stalloc::planner
