#include "order_search.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

namespace stalloc::planner {
namespace {

struct Start {
  OrderRule rule;
  Fit fit;
};

constexpr Start kStarts[] = {
    {OrderRule::kLoadLength, Fit::kBest},  {OrderRule::kArea, Fit::kFirst},  {OrderRule::kLoadLength, Fit::kFirst},
    {OrderRule::kEnd, Fit::kBest},         {OrderRule::kLoad, Fit::kFirst},  {OrderRule::kLength, Fit::kBest},
    {OrderRule::kBegin, Fit::kBest},       {OrderRule::kBegin, Fit::kFirst}, {OrderRule::kLoad, Fit::kBest},
    {OrderRule::kSizeLength, Fit::kFirst}, {OrderRule::kArea, Fit::kBest},   {OrderRule::kLength, Fit::kFirst}};
static_assert(std::size(kStarts) == kLapsPerRound);

constexpr std::uint64_t kTries = 5;  // of the shortest lap
constexpr int kOutOfPlace = 3;       // blocks, where a lap begins
// Steps of the occupancy for each block and try of a lap at most, on average: a best fit may take many times as long as
// a first fit, and shall not take many times the share of time.
constexpr std::uint64_t kStepsPerBlock = 30;

// Luby, Sinclair, Zuckerman 1993: 1 1 2 1 1 2 4 ...
std::uint64_t LapScale(std::uint64_t round) { return std::uint64_t{1} << std::min(7, std::countr_zero(round + 1)); }

}  // namespace

Fit FitOfLap(std::uint64_t number) { return kStarts[number % kLapsPerRound].fit; }

OrderSearch::OrderSearch(const Instance& instance, std::uint64_t seed)
    : instance_(instance), seed_(seed), starts_(kLapsPerRound), occupancy_(instance) {}

std::size_t OrderSearch::Place(Fit fit, Bytes ceiling, Packing* packing) {
  occupancy_.Clear();
  packing->height = 0;
  for (std::size_t rank = 0; rank < order_.size(); ++rank) {
    const std::uint32_t i = order_[rank];
    const Bytes offset = fit == Fit::kFirst ? occupancy_.FirstFit(i) : occupancy_.BestFit(i);
    const Bytes end = offset + instance_.blocks[i].size;
    if (end > ceiling) return rank;
    packing->offsets[i] = offset;
    packing->height = std::max(packing->height, end);
    occupancy_.Add(i, offset, end);
  }
  return order_.size();
}

// To the front, or to a random place before its own, nearer ones more often.
void OrderSearch::MoveForward(std::size_t rank) {
  if (rank == 0) return;
  std::size_t to = 0;
  if (random_() % 4 != 0) {
    const double unit = static_cast<double>(random_() >> 11) * 0x1p-53;
    to = static_cast<std::size_t>(static_cast<double>(rank) * (1 - unit * unit));
  }
  to = std::min(to, rank - 1);
  const auto at = order_.begin();
  std::rotate(at + static_cast<std::ptrdiff_t>(to), at + static_cast<std::ptrdiff_t>(rank),
              at + static_cast<std::ptrdiff_t>(rank) + 1);
}

std::optional<Packing> OrderSearch::Run(std::uint64_t number, Bytes ceiling, const std::function<bool()>& stop) {
  if (instance_.size() == 0) return std::nullopt;
  const auto [rule, fit] = kStarts[number % kLapsPerRound];
  const std::uint64_t round = number / kLapsPerRound;
  Order& start = starts_[number % kLapsPerRound];
  if (start.empty()) start = MakeOrder(instance_, rule);
  order_ = start;
  std::seed_seq sequence{seed_, number};
  random_.seed(sequence);
  for (int k = 0; round > 0 && k < kOutOfPlace; ++k) MoveForward(random_() % order_.size());

  Packing packing;
  packing.offsets.resize(instance_.size());
  const std::uint64_t tries = kTries * LapScale(round);
  const std::uint64_t last_step = occupancy_.Steps() + tries * instance_.size() * kStepsPerBlock;
  for (std::uint64_t k = 0; k < tries && occupancy_.Steps() < last_step && !stop(); ++k) {
    const std::size_t rank = Place(fit, ceiling, &packing);
    if (rank == order_.size()) return packing;
    MoveForward(rank);
  }
  return std::nullopt;
}

std::optional<LapResult> RunLaps(std::vector<OrderSearch>& searches, const std::vector<std::uint64_t>& numbers,
                                 Bytes ceiling, const std::function<bool()>& stop) {
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> best{numbers.size()};  // the first that has found one
  std::mutex mutex;
  std::optional<LapResult> result;
  const auto work = [&](OrderSearch& search) {
    for (;;) {
      const std::size_t which = next.fetch_add(1);
      if (which >= best.load() || stop()) return;
      // A later lap goes on only while no earlier one has found a placement.
      const auto enough = [&] { return best.load(std::memory_order_relaxed) < which || stop(); };
      std::optional<Packing> packing = search.Run(numbers[which], ceiling, enough);
      const std::scoped_lock lock(mutex);
      if (!packing || which > best.load()) continue;
      best.store(which);
      result = {which, std::move(*packing), search.order()};
    }
  };
  std::vector<std::jthread> threads;
  for (std::size_t k = 1; k < searches.size(); ++k) threads.emplace_back([&, k] { work(searches[k]); });
  work(searches[0]);
  threads.clear();
  return result;
}

std::vector<std::uint64_t> LapSchedule::Next() const {
  std::vector<std::uint64_t> numbers;
  std::array<std::uint64_t, kLapsPerRound> rounds = rounds_;
  const auto add = [&](std::uint64_t start) { numbers.push_back(rounds[start]++ * kLapsPerRound + start); };
  for (std::uint64_t k = 0; favourite_ && k < kLapsPerRound / 2; ++k) add(*favourite_);
  for (std::uint64_t start = 0; start < kLapsPerRound; ++start) add(start);
  return numbers;
}

void LapSchedule::Report(const std::vector<std::uint64_t>& numbers, std::size_t which) {
  // The lap that was good for this height may be good for the next: it stays to be run again.
  for (std::size_t k = 0; k < std::min(which, numbers.size()); ++k) ++rounds_[numbers[k] % kLapsPerRound];
  if (which < numbers.size()) favourite_ = numbers[which] % kLapsPerRound;
}

}  // namespace stalloc::planner
