#include "instance.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "planner/lower_bound.h"

namespace stalloc::planner {
namespace {

struct Life {
  Time begin;
  Time end;
  bool always;  // the whole circle
};

// On a circle: begin in [0, period), end in (0, period] or, if the block wraps, end <= begin.
Life Normalised(Time begin, Time end, Time period) {
  if (period == 0) return {begin, end, false};
  const __int128 length = static_cast<__int128>(end) - begin;
  if (length >= period) return {0, period, true};
  Time start = begin % period;
  if (start < 0) start += period;
  const __int128 stop = start + length;
  return {start, static_cast<Time>(stop > period ? stop - period : stop), false};
}

// The moments just before which something ended and after which nothing has begun yet, in order of time: slot k reaches
// from slot_ends[k - 1] to slot_ends[k].
std::vector<Time> SlotEnds(const std::vector<Life>& lives) {
  std::vector<Time> begins;
  std::vector<Time> ends;
  begins.reserve(lives.size());
  ends.reserve(lives.size());
  for (const Life& life : lives) {
    begins.push_back(life.begin);
    ends.push_back(life.end);
  }
  std::sort(begins.begin(), begins.end());
  std::sort(ends.begin(), ends.end());
  std::vector<Time> cuts;
  std::size_t b = 0;
  std::size_t e = 0;
  while (b < begins.size()) {
    while (e < ends.size() && ends[e] <= begins[b]) ++e;  // ends before this run of begins make no slot of their own
    if (e == ends.size()) break;
    cuts.push_back(ends[e]);
    while (b < begins.size() && begins[b] < ends[e]) ++b;
  }
  return cuts;
}

// A begin falls into the first slot whose end lies after it.
Slots SlotOfBegin(const std::vector<Time>& cuts, Time begin) {
  return static_cast<Slots>(std::upper_bound(cuts.begin(), cuts.end(), begin) - cuts.begin());
}

// A block that ends at `end` lives in every slot whose end is not after it.
Slots SlotOfEnd(const std::vector<Time>& cuts, Time end) {
  return static_cast<Slots>(std::upper_bound(cuts.begin(), cuts.end(), end) - cuts.begin()) - 1;
}

Bytes RoundUp(Bytes value, Bytes alignment) { return (value + alignment - 1) & ~(alignment - 1); }

// Lowest height under which `bytes` fit beside `spans`, which may overlap one another.
Bytes FluidHeight(Bytes bytes, std::vector<std::pair<Bytes, Bytes>>& spans) {
  if (bytes == 0) return 0;
  std::sort(spans.begin(), spans.end());
  Bytes free_from = 0;
  for (const auto& [begin, end] : spans) {
    if (begin > free_from) {
      if (begin - free_from >= bytes) break;
      bytes -= begin - free_from;
    }
    free_from = std::max(free_from, end);
  }
  return free_from + bytes;
}

void FillFloor(Instance& instance) {
  instance.floor = instance.load;
  if (!instance.fixed.empty()) {
    // Slots between two changes of the fixed blocks share one sorted list of them.
    std::vector<Slots> changes{0, instance.slots};
    for (const FixedSpan& span : instance.fixed) {
      changes.push_back(span.first);
      changes.push_back(span.last + 1);
    }
    std::sort(changes.begin(), changes.end());
    changes.erase(std::unique(changes.begin(), changes.end()), changes.end());
    std::vector<std::pair<Bytes, Bytes>> spans;
    for (std::size_t c = 0; c + 1 < changes.size(); ++c) {
      spans.clear();
      for (const FixedSpan& span : instance.fixed) {
        const Slots at = changes[c];
        const bool live = span.Wraps() ? (at >= span.first || at <= span.last) : (at >= span.first && at <= span.last);
        if (live) spans.emplace_back(span.begin, span.end);
      }
      for (Slots t = changes[c]; t < changes[c + 1]; ++t) {
        instance.floor[t] = FluidHeight(instance.load[t], spans);
      }
    }
  }
  for (const Bytes height : instance.floor) instance.bound = std::max(instance.bound, height);
}

// Largest padding per slot: the topmost block of a moment need not fill its last unit.
Bytes TightBound(const Problem& problem, const Instance& instance) {
  if (problem.alignment_bytes == 1) return instance.bound;
  // Blocks by falling padding; each slot takes the first that covers it (next_free: union-find over slots).
  std::vector<std::uint32_t> order(instance.size());
  std::iota(order.begin(), order.end(), 0);
  const auto padding = [&](std::uint32_t i) { return instance.blocks[i].size - problem.requests[i].size_bytes; };
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return padding(a) > padding(b); });
  std::vector<Slots> next_free(instance.slots + 1);
  std::iota(next_free.begin(), next_free.end(), 0);
  const auto find = [&](Slots t) {
    while (next_free[t] != t) t = next_free[t] = next_free[next_free[t]];
    return t;
  };
  Bytes bound = 0;
  for (const std::uint32_t i : order) {
    instance.ForPieces(instance.blocks[i].first, instance.blocks[i].last, [&](Slots first, Slots last) {
      for (Slots t = find(first); t <= last; t = find(t)) {
        bound = std::max(bound, instance.floor[t] - padding(i));
        next_free[t] = t + 1;
      }
    });
  }
  return bound;
}

}  // namespace

Instance MakeInstance(const Problem& problem) {
  Instance instance;
  instance.alignment = problem.alignment_bytes;
  instance.capacity = problem.capacity_bytes;
  std::vector<Life> lives;
  lives.reserve(problem.requests.size());
  for (const Request& request : problem.requests) {
    lives.push_back(Normalised(request.begin, request.end, problem.period));
  }
  for (const FixedBlock& block : problem.fixed) {
    lives.push_back(Normalised(block.begin, block.end, problem.period));
  }
  // On a circle a wrapping block counts as two pieces when the slots are cut.
  std::vector<Life> pieces;
  if (problem.period > 0) {
    for (const Life& life : lives) {
      if (life.always || life.begin < life.end) {
        pieces.push_back(life);
      } else {
        pieces.push_back({life.begin, problem.period, false});
        pieces.push_back({0, life.end, false});
      }
    }
  }
  const std::vector<Time> cuts = SlotEnds(problem.period > 0 ? pieces : lives);
  instance.slots = static_cast<Slots>(cuts.size());

  std::vector<Bytes> change(cuts.size() + 1, 0);  // differences modulo 2^64
  instance.blocks.reserve(problem.requests.size());
  for (std::size_t i = 0; i < problem.requests.size(); ++i) {
    Block block;
    block.size = RoundUp(problem.requests[i].size_bytes, problem.alignment_bytes);
    block.first = SlotOfBegin(cuts, lives[i].begin);
    block.last = SlotOfEnd(cuts, lives[i].end);
    instance.blocks.push_back(block);
    instance.ForPieces(block.first, block.last, [&](Slots first, Slots last) {
      change[first] += block.size;
      change[last + 1] -= block.size;
    });
  }
  instance.load.resize(cuts.size());
  Bytes live = 0;
  for (std::size_t t = 0; t < cuts.size(); ++t) {
    live += change[t];
    instance.load[t] = live;
  }

  for (std::size_t k = 0; k < problem.fixed.size(); ++k) {
    const FixedBlock& block = problem.fixed[k];
    const Life& life = lives[problem.requests.size() + k];
    instance.fixed.push_back({block.offset & ~(problem.alignment_bytes - 1),
                              RoundUp(block.offset + block.size_bytes, problem.alignment_bytes),
                              SlotOfBegin(cuts, life.begin), SlotOfEnd(cuts, life.end)});
  }
  FillFloor(instance);
  return instance;
}

Placement MakePlacement(const Problem& problem, std::vector<Bytes> offsets) {
  Placement placement;
  placement.offsets = std::move(offsets);
  for (std::size_t i = 0; i < placement.offsets.size(); ++i) {
    placement.height_bytes = std::max(placement.height_bytes, placement.offsets[i] + problem.requests[i].size_bytes);
  }
  return placement;
}

Bytes LowerBound(const Problem& problem) { return TightBound(problem, MakeInstance(problem)); }

Bytes PeakLive(const Problem& problem) {
  Problem all = problem;
  all.alignment_bytes = 1;
  for (const FixedBlock& block : problem.fixed) {
    if (problem.period > 0 && static_cast<__int128>(block.end) - block.begin >= problem.period) {
      all.requests.push_back({block.size_bytes, 0, problem.period, 0});
    } else {
      all.requests.push_back({block.size_bytes, block.begin, block.end, 0});
    }
  }
  all.fixed.clear();
  return MakeInstance(all).bound;
}

}  // namespace stalloc::planner
