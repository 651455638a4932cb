#include "exact_skyline.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace stalloc::planner {

Skyline::Skyline(const Instance& instance, Bytes ceiling) : instance_(instance), ceiling_(ceiling) {
  const std::size_t n = instance.size();
  lowest_.assign(n, 0);
  placed_.assign(n, false);
  support_.assign(n, 0);
  left_ = instance.load;
  crossing_.assign(instance.slots, 0);
  at_.resize(instance.slots);
  queued_.assign(instance.slots, false);
  in_crowded_.assign(instance.slots, false);
  top_of_class_.assign(n, 0);
  for (Index i = 0; i < n; ++i) extent_.push_back(instance.Extent(i));
  for (Index i = 0; i < n; ++i) {
    ForSlots(i, [&](Slots t) { at_[t].push_back(i); });
    ForCrossings(i, [&](Slots t) { ++crossing_[t]; });
  }
  left_in_slot_.resize(instance.slots);
  for (Slots t = 0; t < instance.slots; ++t) left_in_slot_[t] = at_[t].size();
  view_.resize(instance.slots);
  for (const Block& block : instance.blocks) unit_ = std::gcd(unit_, block.size);
  neighbours_.resize(n);
  beyond_.resize(n);
  for (Index i = 0; i < n; ++i) {
    for (Index k = 0; k < n; ++k) {
      if (i == k || !Exclude(instance, i, k)) continue;
      neighbours_[i].push_back(k);
      if (!Meet(instance.blocks[i], instance.blocks[k])) beyond_[i].push_back(k);
    }
  }
  FindClasses();
}

// Blocks with the same lifetime, on the same stream and as long reusable by each make a class.
void Skyline::FindClasses() {
  class_.resize(instance_.size());
  std::vector<std::pair<std::vector<Slots>, Index>> lives;
  for (Index i = 0; i < instance_.size(); ++i) {
    const Block& block = instance_.blocks[i];
    std::vector<Slots> life{block.first, block.last, static_cast<Slots>(instance_.StreamOf(i))};
    for (std::uint32_t q = 0; q < instance_.streams; ++q) life.push_back(instance_.Reach(i, q));
    lives.emplace_back(std::move(life), i);
  }
  std::sort(lives.begin(), lives.end());
  for (std::size_t r = 0; r < lives.size(); ++r) {
    const bool alike = r > 0 && lives[r].first == lives[r - 1].first;
    class_[lives[r].second] = alike ? class_[lives[r - 1].second] : lives[r].second;
  }
}

bool Skyline::Begin() {
  for (Slots t = 0; t < instance_.slots; ++t) Enqueue(t);
  return Propagate();
}

void Skyline::TakeBack(std::size_t mark) {
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

void Skyline::Unplace(Index i, Index holder) {
  placed_[i] = false;
  top_of_class_[class_[i]] = holder;
  ForSlots(i, [&](Slots t) {
    left_[t] += instance_.blocks[i].size;
    ++left_in_slot_[t];  // it still lies just behind the end of the list
  });
  ForCrossings(i, [&](Slots t) { ++crossing_[t]; });
}

void Skyline::Enqueue(Slots t) {
  if (!queued_[t]) {
    queued_[t] = true;
    queue_.push_back(t);
  }
}

void Skyline::RaiseLowest(Index i, Bytes height) {
  trail_.push_back({Undo::What::kLowest, i, lowest_[i], 0, 0});
  lowest_[i] = height;
  ForSlots(i, [&](Slots t) { Enqueue(t); });
}

// The cheap look at slots comes first: it may end the branch, and what it finds saves looks that cost more.
bool Skyline::Propagate() {
  bool fits = true;
  std::size_t head = 0;
  while (head < queue_.size() || !crowded_.empty()) {
    if (head < queue_.size()) {
      const Slots t = queue_[head++];
      queued_[t] = false;
      fits = fits && Visit(t);
    } else {
      queue_.clear();
      head = 0;
      const Slots t = crowded_.back();
      crowded_.pop_back();
      in_crowded_[t] = false;
      fits = fits && Lift(t);
    }
  }
  queue_.clear();
  return fits;
}

// Looks at a slot again after a change: its floor is the lowest offset that one of its blocks may have, and what is
// left of it must fit above.
bool Skyline::Visit(Slots t) {
  const std::size_t count = left_in_slot_[t];
  if (count == 0) return true;
  const Index* const blocks = at_[t].data();
  View view{kUnlimited, kUnlimited, 0};
  Bytes highest = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const Index i = blocks[k];
    const Bytes release = lowest_[i];
    view.end = std::min(view.end, support_[i] + instance_.blocks[i].size);
    highest = std::max(highest, release);
    if (release < view.floor) {
      view.floor = release;
      view.ties = 0;
    }
    view.ties += release == view.floor;
  }
  if (view.floor + left_[t] > ceiling_) return false;
  trail_.push_back({Undo::What::kView, static_cast<Index>(t), view_[t].floor, view_[t].end, view_[t].ties});
  view_[t] = view;
  if (highest + left_[t] > ceiling_ && !in_crowded_[t]) {
    in_crowded_[t] = true;
    crowded_.push_back(t);
  }
  return true;
}

// What is left of a slot shares one column, as jobs share a machine. If block i and all blocks that end above some
// height at the earliest do not fit above i's lowest offset, i comes after one of them ("not first": Carlier &
// Pinson 1989).
bool Skyline::Lift(Slots t) {
  const std::size_t count = left_in_slot_[t];
  Index* const blocks = at_[t].data();
  jobs_.clear();
  for (std::size_t k = 0; k < count; ++k) {
    const Job job{lowest_[blocks[k]] + instance_.blocks[blocks[k]].size, blocks[k]};
    std::size_t to = k;  // most often the blocks are in order, as they were left the last time
    jobs_.push_back(job);
    for (; to > 0 && jobs_[to - 1].end < job.end; --to) jobs_[to] = jobs_[to - 1];
    jobs_[to] = job;
  }
  for (std::size_t k = 0; k < count; ++k) blocks[k] = jobs_[k].index;
  sums_.assign(1, 0);
  for (const Job& job : jobs_) sums_.push_back(sums_.back() + instance_.blocks[job.index].size);
  for (std::size_t k = 0; k < count; ++k) {
    const Index i = jobs_[k].index;
    const Bytes lowest = jobs_[k].end - instance_.blocks[i].size;
    if (lowest + left_[t] <= ceiling_) continue;
    // The fewest blocks from the highest end down that do not fit together with i; i itself may be one of them.
    auto m = std::upper_bound(sums_.begin(), sums_.begin() + k + 1, ceiling_ - jobs_[k].end);
    if (m == sums_.begin() + k + 1) m = std::upper_bound(m, sums_.end(), ceiling_ - lowest);
    const Bytes above = jobs_[static_cast<std::size_t>(m - sums_.begin()) - 1].end;
    if (above <= lowest_[i]) continue;
    if (above + instance_.blocks[i].size > ceiling_) return false;
    RaiseLowest(i, above);
  }
  return true;
}

bool Skyline::LiftRefused(const std::vector<Index>& part) {
  for (bool again = true; again;) {
    again = false;
    for (const Index i : part) {
      if (placed_[i] || !Refused(i)) continue;
      Bytes rest = kUnlimited;
      for (const Index other : neighbours_[i]) {
        if (placed_[other]) continue;
        rest = std::min(rest, lowest_[other] + instance_.blocks[other].size);
        if (rest <= lowest_[i]) break;
      }
      if (rest <= lowest_[i]) continue;
      if (rest == kUnlimited || rest + instance_.blocks[i].size > ceiling_) return false;
      RaiseLowest(i, rest);
      again = true;
    }
    if (again && !Propagate()) return false;
  }
  return true;
}

bool Skyline::Place(Index i, bool* splits) {
  const Bytes top = support_[i] + instance_.blocks[i].size;
  trail_.push_back({Undo::What::kPlaced, i, 0, 0, top_of_class_[class_[i]]});
  placed_[i] = true;
  top_of_class_[class_[i]] = i + 1;
  ForSlots(i, [&](Slots t) {
    std::vector<Index>& list = at_[t];
    const auto last = list.begin() + static_cast<std::ptrdiff_t>(--left_in_slot_[t]);
    std::iter_swap(std::find(list.begin(), last, i), last);
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

bool Skyline::Refuse(Index i, const std::vector<Index>& part) {
  const Bytes above = support_[i] + unit_;
  for (const Index other : part) {
    const bool alike = class_[other] == class_[i] && instance_.blocks[other].size == instance_.blocks[i].size;
    if (alike && lowest_[other] < above) RaiseLowest(other, above);
  }
  return Propagate();
}

bool Skyline::Undercut(Index i) const {
  return std::any_of(beyond_[i].begin(), beyond_[i].end(), [&](Index other) {
    return !placed_[other] && support_[other] + instance_.blocks[other].size <= support_[i];
  });
}

bool Skyline::OutOfOrder(Index i) const {
  const Index holder = top_of_class_[class_[i]];
  if (holder == 0) return false;
  const Index below = holder - 1;
  if (support_[below] + instance_.blocks[below].size != support_[i]) return false;
  return instance_.blocks[below].size < instance_.blocks[i].size;
}

}  // namespace stalloc::planner
