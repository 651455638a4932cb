#include "segments.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <numeric>
#include <thread>
#include <utility>

#include "occupancy.h"

namespace stalloc::planner {
namespace {

constexpr std::size_t kMinBlocks = 500;  // a segment with fewer is not worth a cut
constexpr Bytes kCrossingShare = 200;    // a cut is good where this part of the bound, or less, lives across it,
constexpr int kMaxCrossing = 200;        // in so many blocks at most
constexpr Slots kStandingShare = 4;      // what lives for this part of all time, or more, does not count
constexpr std::size_t kBatch = 16;       // segments between two looks at what did well
constexpr std::size_t kQuickPasses = 2;  // for a segment, once it is known what does well
constexpr std::size_t kGoodOrders = 4;   // remembered

// The bytes taken in all slots of [begin, end) by blocks that cross, as few spans as they make, and the others as they
// are.
std::vector<FixedSpan> FixedIn(const Instance& instance, const std::vector<FixedSpan>& crossing, Slots begin,
                               Slots end) {
  std::vector<FixedSpan> fixed;
  std::vector<FixedSpan> standing;
  for (const std::vector<FixedSpan>* spans : {&instance.fixed, &crossing}) {
    for (FixedSpan span : *spans) {
      if (span.last < begin || span.first >= end) continue;
      span.first = std::max(span.first, begin) - begin;
      span.last = std::min(span.last, end - 1) - begin;
      (span.first == 0 && span.last == end - begin - 1 ? standing : fixed).push_back(span);
    }
  }
  std::sort(standing.begin(), standing.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  for (const FixedSpan& span : standing) {
    const bool whole = !fixed.empty() && fixed.back().first == 0 && fixed.back().last == end - begin - 1;
    if (whole && span.begin <= fixed.back().end) {
      fixed.back().end = std::max(fixed.back().end, span.end);
    } else {
      fixed.push_back(span);
    }
  }
  return fixed;
}

}  // namespace

Segments::Segments(const Instance& instance, std::uint64_t seed, unsigned threads)
    : instance_(instance),
      seed_(seed),
      threads_(threads),
      offsets_(instance.size()),
      rules_(std::begin(kOrderRules), std::end(kOrderRules)) {
  std::vector<std::uint32_t> all(instance.size());
  std::iota(all.begin(), all.end(), 0);
  // Without what stands for long, which lives across most cuts whatever they are.
  std::erase_if(
      all, [&](std::uint32_t i) { return instance.Length(instance.blocks[i]) >= instance.slots / kStandingShare; });
  std::vector<Slots> cuts;
  Cut(std::move(all), 0, instance.slots, &cuts);
  if (cuts.empty()) return;
  std::sort(cuts.begin(), cuts.end());
  cuts.push_back(instance.slots);
  PlaceCrossing(cuts);
}

// Cuts [begin, end), in which `blocks` live, where the fewest bytes live on, and each of the two parts again. A cut at
// t lies between the slots t - 1 and t.
void Segments::Cut(std::vector<std::uint32_t> blocks, Slots begin, Slots end, std::vector<Slots>* cuts) const {
  if (blocks.size() < 2 * kMinBlocks || end - begin < 10) return;
  struct Change {
    Bytes bytes = 0;  // differences modulo 2^64
    int blocks = 0;
  };
  std::vector<Change> changes(static_cast<std::size_t>(end - begin) + 1);
  for (const std::uint32_t i : blocks) {
    Change& from = changes[instance_.blocks[i].first + 1 - begin];
    Change& until = changes[instance_.blocks[i].last + 1 - begin];
    from.bytes += instance_.blocks[i].size;
    ++from.blocks;
    until.bytes -= instance_.blocks[i].size;
    --until.blocks;
  }
  const Slots margin = std::max((end - begin) / 10, 1);
  const Slots middle = begin + (end - begin) / 2;
  Change crossing;
  Bytes fewest = kUnlimited;
  Slots cut = begin;
  for (Slots t = begin; t < end - margin; ++t) {
    crossing.bytes += changes[t - begin].bytes;
    crossing.blocks += changes[t - begin].blocks;
    if (t < begin + margin || crossing.blocks > kMaxCrossing) continue;
    const bool nearer = std::abs(t - middle) < std::abs(cut - middle);
    if (crossing.bytes < fewest || (crossing.bytes == fewest && nearer)) {
      fewest = crossing.bytes;
      cut = t;
    }
  }
  if (fewest > instance_.bound / kCrossingShare) return;
  cuts->push_back(cut);
  const auto cross =
      std::partition(blocks.begin(), blocks.end(), [&](std::uint32_t i) { return instance_.blocks[i].last < cut; });
  std::vector<std::uint32_t> later;
  std::copy_if(cross, blocks.end(), std::back_inserter(later),
               [&](std::uint32_t i) { return instance_.blocks[i].first >= cut; });
  blocks.erase(cross, blocks.end());
  Cut(std::move(blocks), begin, cut, cuts);
  Cut(std::move(later), cut, end, cuts);
}

// `cuts` are sorted and end with the end of time. What crosses one goes as low as it can, the longest-lived first.
void Segments::PlaceCrossing(const std::vector<Slots>& cuts) {
  std::vector<std::uint32_t> crossing;
  std::vector<std::vector<std::uint32_t>> own(cuts.size());
  for (std::uint32_t i = 0; i < instance_.size(); ++i) {
    const Block& block = instance_.blocks[i];
    const auto next = std::upper_bound(cuts.begin(), cuts.end(), block.first);
    if (block.last >= *next) {
      crossing.push_back(i);
    } else {
      own[static_cast<std::size_t>(next - cuts.begin())].push_back(i);
    }
  }
  std::vector<FixedSpan> spans;
  const Instance across = PartOf(instance_, 0, instance_.slots, crossing, instance_.fixed);
  Occupancy occupancy(across);
  const auto placed = PlaceInOrder(across, MakeOrder(across, OrderRule::kLength), Fit::kFirst, kUnlimited, occupancy);
  for (std::size_t k = 0; k < crossing.size(); ++k) {
    const Block& block = instance_.blocks[crossing[k]];
    offsets_[crossing[k]] = placed->offsets[k];
    spans.push_back({placed->offsets[k], placed->offsets[k] + block.size, block.first, block.last});
  }
  for (std::size_t s = 0; s < cuts.size(); ++s) {
    if (own[s].empty()) continue;
    const Slots begin = s == 0 ? 0 : cuts[s - 1];
    Instance part = PartOf(instance_, begin, cuts[s], own[s], FixedIn(instance_, spans, begin, cuts[s]));
    segments_.push_back({std::move(part), std::move(own[s]), kUnlimited, {}});
  }
}

void Segments::Keep(Segment& segment, const Packing& packing) {
  segment.height = packing.height;
  for (std::size_t k = 0; k < segment.blocks.size(); ++k) offsets_[segment.blocks[k]] = packing.offsets[k];
}

Segments::Found Segments::PlaceGreedily(Segment& segment, Bytes wanted, std::size_t passes) {
  Occupancy occupancy(segment.instance);
  for (std::size_t k = 0; k < passes; ++k) {
    const Bytes ceiling = k == 0 ? kUnlimited : segment.height - 1;
    const auto packing =
        PlaceInOrder(segment.instance, MakeOrder(segment.instance, rules_[k]), Fit::kFirst, ceiling, occupancy);
    if (!packing) continue;
    Keep(segment, *packing);
    if (packing->height <= wanted) return {rules_[k], std::nullopt, Fit::kFirst};
  }
  return {};
}

Segments::Found Segments::LowerOne(Segment& segment, unsigned threads, Bytes ceiling,
                                   const std::function<bool()>& stop) {
  {
    Occupancy occupancy(segment.instance);
    for (const auto& [order, fit] : good_orders_) {
      if (order.size() != segment.blocks.size() || stop()) continue;
      const auto packing = PlaceInOrder(segment.instance, order, fit, ceiling, occupancy);
      if (!packing) continue;
      Keep(segment, *packing);
      return {std::nullopt, order, fit};
    }
  }
  std::vector<OrderSearch> searches;
  for (unsigned k = 0; k < threads; ++k) searches.emplace_back(segment.instance, seed_);
  const std::vector<std::uint64_t> laps = segment.schedule.Next();
  std::optional<LapResult> found = RunLaps(searches, laps, ceiling, stop);
  segment.schedule.Report(laps, found ? found->which : LapSchedule::npos);
  if (!found) return {};
  Keep(segment, found->packing);
  return {std::nullopt, std::move(found->order), FitOfLap(laps[found->which])};
}

// Batch after batch, until `go_on`, asked after each from `begin` to `end`, says no.
void Segments::ForAll(const std::vector<Segment*>& segments, const std::function<Found(Segment&)>& work,
                      const std::function<bool(std::size_t, std::size_t)>& go_on) {
  for (std::size_t begin = 0; begin < segments.size(); begin += kBatch) {
    const std::size_t end = std::min(begin + kBatch, segments.size());
    std::vector<Found> found(end - begin);
    std::atomic<std::size_t> next{begin};
    const auto run = [&] {
      for (std::size_t s = next.fetch_add(1); s < end; s = next.fetch_add(1)) found[s - begin] = work(*segments[s]);
    };
    {
      std::vector<std::jthread> threads;
      for (unsigned k = 1; k < threads_ && begin + k < end; ++k) threads.emplace_back(run);
      run();
    }
    for (Found& one : found) Learn(std::move(one));
    if (!go_on(begin, end)) return;
  }
}

void Segments::Learn(Found found) {
  if (found.rule) {
    const auto at = std::find(rules_.begin(), rules_.end(), *found.rule);
    std::rotate(rules_.begin(), at, std::next(at));
  }
  if (!found.order) return;
  std::pair<Order, Fit> good{std::move(*found.order), found.fit};
  const auto at = std::find(good_orders_.begin(), good_orders_.end(), good);
  if (at != good_orders_.end()) {
    std::rotate(good_orders_.begin(), at, std::next(at));
    return;
  }
  good_orders_.insert(good_orders_.begin(), std::move(good));
  if (good_orders_.size() > kGoodOrders) good_orders_.pop_back();
}

void Segments::Place(Bytes wanted) {
  if (segments_.empty()) return;
  // The most loaded one shows which passes do well.
  const auto fullest = std::max_element(segments_.begin(), segments_.end(), [](const auto& a, const auto& b) {
    return a.instance.bound < b.instance.bound;
  });
  Learn(PlaceGreedily(*fullest, wanted, std::size(kOrderRules)));
  const std::size_t passes = fullest->height <= wanted ? kQuickPasses : 1;
  std::vector<Segment*> others;
  for (Segment& segment : segments_) {
    if (&segment != &*fullest) others.push_back(&segment);
  }
  ForAll(
      others, [&](Segment& segment) { return PlaceGreedily(segment, wanted, passes); },
      [](std::size_t, std::size_t) { return true; });
}

std::size_t Segments::Lower(Bytes ceiling, const std::function<bool()>& stop) {
  std::vector<Segment*> high;
  for (Segment& segment : segments_) {
    if (segment.height > ceiling) high.push_back(&segment);
  }
  if (high.empty()) return 0;
  std::stable_sort(high.begin(), high.end(), [](const auto* a, const auto* b) { return a->height > b->height; });
  const auto low = [&](const Segment* segment) { return segment->height <= ceiling; };
  Learn(LowerOne(*high.front(), threads_, ceiling, stop));
  if (!low(high.front())) return 0;
  const std::vector<Segment*> others(high.begin() + 1, high.end());
  ForAll(
      others, [&](Segment& segment) { return LowerOne(segment, 1, ceiling, stop); },
      [&](std::size_t begin, std::size_t end) {
        return !stop() && std::all_of(others.begin() + begin, others.begin() + end, low);
      });
  return static_cast<std::size_t>(std::count_if(high.begin(), high.end(), low));
}

}  // namespace stalloc::planner
