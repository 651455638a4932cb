#include "plan_decoder.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "planner/lower_bound.h"
#include "planner/plan_front.h"
#include "slot_measure.h"
#include "stream_waits.h"

namespace stalloc::planner {
namespace {

constexpr std::uint64_t kNoCeiling = std::uint64_t{1} << 32;
constexpr double kOpenCeiling = 0.9;  // keys from here on mean none

// Of the six single keys, after the blend.
enum SingleKey : std::size_t { kSpread, kCeiling, kWaits, kKept, kGrowth, kGrown };
enum GroupKey : std::size_t { kPlace, kKeptFirst, kGrownFirst };

}  // namespace

PlanDecoder::Level::Level(const Problem& problem, std::vector<Bytes> sizes, Bytes paged_from)
    : instance(MakeInstance(problem)), packer(instance, std::move(sizes), paged_from) {}

PlanDecoder::PlanDecoder(const PageProblem& problem, const std::vector<Order>& bases)
    : problem_(problem), waits_(HasSeveralStreams(problem.problem)), levels_(kWaitLevels + 1) {
  sizes_.reserve(problem.problem.requests.size());
  for (const Request& request : problem.problem.requests) sizes_.push_back(request.size_bytes);
  ranks_.reserve(bases.size());
  for (const Order& base : bases) {
    std::vector<double> rank(base.size());
    for (std::size_t k = 0; k < base.size(); ++k) {
      rank[base[k]] = static_cast<double>(k) / static_cast<double>(base.size());
    }
    ranks_.push_back(std::move(rank));
  }
  lowest_pages_ = PagesOf(LowerBound(WithWaitsFrom(problem.problem, 0)));
  highest_pages_ = lowest_pages_ + lowest_pages_ / 4 + 1;
  if (!problem.incumbent.empty()) {
    highest_pages_ = std::max(highest_pages_, PagesOf(MeasureSlots(problem, problem.incumbent).height_bytes));
  }
  MakeGroups();
}

// The groups with the most bytes are told apart; what is left of each power of two is one group.
void PlanDecoder::MakeGroups() {
  const std::vector<Request>& requests = problem_.problem.requests;
  std::map<std::pair<Bytes, std::uint32_t>, Bytes> bytes_of;
  for (const Request& request : requests) bytes_of[{request.size_bytes, request.stream}] += request.size_bytes;
  std::vector<std::pair<Bytes, std::pair<Bytes, std::uint32_t>>> kinds;
  kinds.reserve(bytes_of.size());
  for (const auto& [kind, bytes] : bytes_of) kinds.push_back({bytes, kind});
  std::sort(kinds.rbegin(), kinds.rend());
  std::map<std::pair<Bytes, std::uint32_t>, std::size_t> group_of;
  for (std::size_t k = 0; k < std::min(kinds.size(), kMaxGroups); ++k) {
    group_of[kinds[k].second] = groups_++;
  }
  std::map<int, std::size_t> rest;  // by the exponent of the size
  for (const Request& request : requests) {
    const auto own = group_of.find({request.size_bytes, request.stream});
    if (own != group_of.end()) {
      group_.push_back(own->second);
      continue;
    }
    const auto [shared, fresh] = rest.try_emplace(std::ilogb(static_cast<double>(request.size_bytes)), groups_);
    groups_ += fresh;
    group_.push_back(shared->second);
  }
}

// Level k lets the memory of the largest requests be taken over that make up k eighths of all bytes.
PlanDecoder::Level& PlanDecoder::LevelOf(double key) {
  const std::size_t level = waits_ ? static_cast<std::size_t>(std::lround(key * kWaitLevels)) : kWaitLevels;
  if (!levels_[level]) {
    std::vector<Bytes> falling = sizes_;
    std::sort(falling.rbegin(), falling.rend());
    const double total = std::accumulate(falling.begin(), falling.end(), 0.0);
    Bytes from = level == kWaitLevels ? 0 : kUnlimited;
    double sum = 0;
    for (std::size_t k = 0; k < falling.size() && level < kWaitLevels; ++k) {
      sum += static_cast<double>(falling[k]);
      if (sum > total * static_cast<double>(level) / kWaitLevels) break;
      from = falling[k];
    }
    levels_[level] = std::make_unique<Level>(WithWaitsFrom(problem_.problem, from), sizes_, problem_.paged_from_bytes);
  }
  return *levels_[level];
}

std::vector<double> PlanDecoder::KeysOf(std::size_t base, const Settings& settings) const {
  std::vector<double> keys(this->keys(), 0);
  keys[base] = 1;
  const auto single_keys = std::span(keys).subspan(ranks_.size());
  single_keys[kCeiling] = settings.ceiling;
  single_keys[kWaits] = settings.waits;
  single_keys[kKept] = settings.kept;
  single_keys[kGrowth] = settings.growth;
  single_keys[kGrown] = 1;
  const auto group_keys = single_keys.subspan(kSingleKeys);
  for (std::size_t g = 0; g < groups_; ++g) {
    const double place = (static_cast<double>(g) + 0.5) / static_cast<double>(groups_);
    group_keys[3 * g + kPlace] = 0.5;
    group_keys[3 * g + kKeptFirst] = place;
    group_keys[3 * g + kGrownFirst] = place;
  }
  return keys;
}

Order PlanDecoder::OrderOf(std::span<const double> keys) const {
  const std::span<const double> single = keys.subspan(ranks_.size());
  const std::span<const double> group = single.subspan(kSingleKeys);
  std::vector<double> place(sizes_.size());
  const double weights = std::accumulate(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(ranks_.size()), 0.0);
  for (std::size_t i = 0; i < place.size(); ++i) {
    for (std::size_t base = 0; base < ranks_.size(); ++base) {
      const double weight = weights > 0 ? keys[base] / weights : base == 0;
      place[i] += weight * ranks_[base][i];
    }
    place[i] += single[kSpread] * group[3 * group_[i] + kPlace];
  }
  Order order(place.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return place[a] < place[b]; });
  return order;
}

// As a run, with room to grow if there is room below the ceiling; else as pages; else as a run above the ceiling.
Slot PlanDecoder::Place(Level& level, std::uint32_t request, std::uint64_t ceiling_pages, Bytes grown_size) {
  Bytes& size = level.instance.blocks[request].size;
  const Bytes own = size;
  size = std::max(size, grown_size);
  std::optional<Slot> slot = level.packer.FindRun(request, ceiling_pages);
  if (slot) level.packer.Take(request, *slot);
  size = own;
  if (slot) return std::move(*slot);
  slot = level.packer.FindRun(request, ceiling_pages);
  if (!slot) slot = level.packer.FindPages(request, ceiling_pages);
  if (!slot) slot = level.packer.FindRun(request, kNoCeiling);
  level.packer.Take(request, *slot);
  return std::move(*slot);
}

std::vector<Slot> PlanDecoder::Decode(std::span<const double> keys) {
  const std::span<const double> single = keys.subspan(ranks_.size());
  const std::span<const double> group = single.subspan(kSingleKeys);
  Level& level = LevelOf(single[kWaits]);
  level.packer.Clear();

  // Finer near the lower bound, where a page more or less decides what is paged.
  std::uint64_t ceiling = kNoCeiling;
  if (single[kCeiling] < kOpenCeiling) {
    const double part = single[kCeiling] / kOpenCeiling;
    ceiling =
        lowest_pages_ + static_cast<std::uint64_t>(part * part * static_cast<double>(highest_pages_ - lowest_pages_));
  }
  std::vector<Slot> slots(sizes_.size());
  const Order order = OrderOf(keys);
  if (!problem_.incumbent.empty() && single[kKept] > 0) {
    for (const std::uint32_t i : order) {
      const Slot& slot = problem_.incumbent[i];
      if (slot.kind == Slot::Kind::kNone || group[3 * group_[i] + kKeptFirst] > single[kKept]) continue;
      const bool low = slot.kind != Slot::Kind::kRun || slot.offset_bytes + sizes_[i] <= ceiling * kPageBytes;
      if (!low || !level.packer.Fits(i, slot)) continue;
      level.packer.Take(i, slot);
      slots[i] = slot;
    }
  }
  for (const std::uint32_t i : order) {
    if (slots[i].kind != Slot::Kind::kNone) continue;
    const bool grows = single[kGrowth] > 0 && group[3 * group_[i] + kGrownFirst] <= single[kGrown];
    const double growth = grows ? single[kGrowth] / static_cast<double>(kGrowthShare) : 0;
    const auto more = static_cast<Bytes>(std::ceil(static_cast<double>(sizes_[i]) * growth));
    const Bytes unit = level.instance.alignment;
    slots[i] = Place(level, i, ceiling, (sizes_[i] + more + unit - 1) / unit * unit);
  }
  return slots;
}

}  // namespace stalloc::planner
