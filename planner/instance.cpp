#include "instance.h"

#include <algorithm>
#include <cstddef>
#include <utility>

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

// SlotEnds on a line or a circle; there a life that wraps counts as two pieces.
std::vector<Time> Cuts(const std::vector<Life>& lives, Time period) {
  if (period == 0) return SlotEnds(lives);
  std::vector<Life> pieces;
  pieces.reserve(lives.size());
  for (const Life& life : lives) {
    if (life.always || life.begin < life.end) {
      pieces.push_back(life);
    } else {
      pieces.push_back({life.begin, period, false});
      pieces.push_back({0, life.end, false});
    }
  }
  return SlotEnds(pieces);
}

// The streams that requests are on, in rising order; nothing where no request is held back from any of them.
std::vector<std::uint32_t> StreamsInUse(const Problem& problem) {
  if (problem.reusable.empty()) return {};
  std::vector<char> used(problem.streams, false);
  for (const Request& request : problem.requests) used[request.stream] = true;
  std::vector<std::uint32_t> streams;
  for (std::uint32_t q = 0; q < problem.streams; ++q) {
    if (used[q]) streams.push_back(q);
  }
  for (std::size_t i = 0; i < problem.requests.size(); ++i) {
    for (const std::uint32_t q : streams) {
      if (problem.reusable[i * problem.streams + q] != problem.requests[i].end) return streams;
    }
  }
  return {};
}

void FillLoad(Instance& instance) {
  std::vector<Bytes> change(static_cast<std::size_t>(instance.slots) + 1, 0);  // differences modulo 2^64
  for (const Block& block : instance.blocks) {
    instance.ForPieces(block.first, block.last, [&](Slots first, Slots last) {
      change[first] += block.size;
      change[last + 1] -= block.size;
    });
  }
  instance.load.resize(instance.slots);
  Bytes live = 0;
  for (Slots t = 0; t < instance.slots; ++t) {
    live += change[t];
    instance.load[t] = live;
  }
}

}  // namespace

Instance MakeInstance(const Problem& problem) {
  Instance instance;
  instance.alignment = problem.alignment_bytes;
  instance.capacity = problem.capacity_bytes;
  const std::size_t count = problem.requests.size();
  const std::vector<std::uint32_t> streams = StreamsInUse(problem);
  std::vector<Life> lives;  // of requests, then of fixed blocks, then of requests for each stream
  lives.reserve(count * (1 + streams.size()) + problem.fixed.size());
  for (const Request& request : problem.requests) {
    lives.push_back(Normalised(request.begin, request.end, problem.period));
  }
  for (const FixedBlock& block : problem.fixed) {
    lives.push_back(Normalised(block.begin, block.end, problem.period));
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (const std::uint32_t q : streams) {
      lives.push_back(Normalised(problem.requests[i].begin, problem.reusable[i * problem.streams + q], problem.period));
    }
  }
  const std::vector<Time> cuts = Cuts(lives, problem.period);
  instance.slots = static_cast<Slots>(cuts.size());

  instance.blocks.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    instance.blocks.push_back({RoundUp(problem.requests[i].size_bytes, problem.alignment_bytes),
                               SlotOfBegin(cuts, lives[i].begin), SlotOfEnd(cuts, lives[i].end)});
  }
  for (std::size_t k = 0; k < problem.fixed.size(); ++k) {
    const FixedBlock& block = problem.fixed[k];
    const Life& life = lives[count + k];
    instance.fixed.push_back({block.offset & ~(problem.alignment_bytes - 1),
                              RoundUp(block.offset + block.size_bytes, problem.alignment_bytes),
                              SlotOfBegin(cuts, life.begin), SlotOfEnd(cuts, life.end)});
  }
  if (!streams.empty()) {
    instance.streams = static_cast<std::uint32_t>(streams.size());
    instance.reach.reserve(count * streams.size());
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t stream = problem.requests[i].stream;
      const auto at = std::lower_bound(streams.begin(), streams.end(), stream);
      instance.stream.push_back(static_cast<std::uint32_t>(at - streams.begin()));
      for (std::size_t q = 0; q < streams.size(); ++q) {
        const Life& life = lives[count + problem.fixed.size() + i * streams.size() + q];
        const Slots first = instance.blocks[i].first;
        const Slots all_around = first == 0 ? instance.slots - 1 : first - 1;
        instance.reach.push_back(life.always ? all_around : SlotOfEnd(cuts, life.end));
      }
    }
  }
  FillLoad(instance);
  FillFloor(instance);
  return instance;
}

Instance PartOf(const Instance& whole, Slots begin, Slots end, const std::vector<std::uint32_t>& blocks,
                std::vector<FixedSpan> fixed) {
  Instance part;
  part.alignment = whole.alignment;
  part.capacity = whole.capacity;
  part.slots = end - begin;
  part.fixed = std::move(fixed);
  part.blocks.reserve(blocks.size());
  for (const std::uint32_t i : blocks) {
    const Block& block = whole.blocks[i];
    part.blocks.push_back({block.size, block.first - begin, block.last - begin});
  }
  FillLoad(part);
  FillFloor(part);
  return part;
}

Placement MakePlacement(const Problem& problem, std::vector<Bytes> offsets) {
  Placement placement;
  placement.offsets = std::move(offsets);
  for (std::size_t i = 0; i < placement.offsets.size(); ++i) {
    placement.height_bytes = std::max(placement.height_bytes, placement.offsets[i] + problem.requests[i].size_bytes);
  }
  return placement;
}

}  // namespace stalloc::planner
