#include "exact_portfolio.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <iterator>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace stalloc::planner {
namespace {

using First = ExactStrategy::First;

// By what blocks are preferred: the letters' order is the order of the keys. All keys: largest first.
enum class Preference { kWidthArea, kLoadArea, kLoadWidth, kArea, kSize };

constexpr std::uint64_t kAvoidSpare = 1000;

struct Recipe {
  First first;
  std::uint64_t spare_penalty;
  Preference preference;
};

// The first tries: what was quickest on MiniMalloc's instances A-K.
constexpr Recipe kRecipes[] = {
    {First::kLowest, 4, Preference::kWidthArea},
    {First::kPreferredOfLowest, 4, Preference::kWidthArea},
    {First::kFewestBranches, kAvoidSpare, Preference::kWidthArea},
    {First::kPreferredOfLowest, 4, Preference::kLoadArea},
    {First::kLowest, kAvoidSpare, Preference::kWidthArea},
    {First::kFewestBranches, 0, Preference::kWidthArea},
    {First::kFewestBranches, 4, Preference::kSize},
    {First::kLowest, 4, Preference::kLoadArea},
    {First::kFewestBranches, 4, Preference::kArea},
    {First::kLowest, kAvoidSpare, Preference::kSize},
    {First::kLowest, 4, Preference::kArea},
    {First::kLowest, 4, Preference::kSize},
};

class Portfolio {
 public:
  Portfolio(const Instance& instance, const ExactBudget& budget)
      : instance_(instance), seed_(budget.seed), last_known_lap_(budget.patient ? 6 : 2) {
    peaks_.resize(instance.size());
    for (std::size_t i = 0; i < instance.size(); ++i) {
      instance.ForPieces(instance.blocks[i].first, instance.blocks[i].last, [&](Slots first, Slots last) {
        for (Slots t = first; t <= last; ++t) peaks_[i] = std::max(peaks_[i], instance.load[t]);
      });
    }
  }

  // The strategy of try `number`, and how many nodes it gets: laps over the known recipes, in which each gets four
  // times as much as in the lap before, alternate with laps of recipes drawn at random, blocks a little out of order.
  std::pair<ExactStrategy, std::uint64_t> Try(std::uint64_t number) const {
    std::seed_seq sequence{seed_, number};
    std::mt19937_64 random(sequence);
    const std::uint64_t lap = number / std::size(kRecipes);
    const bool known = lap % 2 == 0 && lap / 2 <= last_known_lap_;
    Recipe recipe = kRecipes[(known ? number : random()) % std::size(kRecipes)];
    constexpr std::uint64_t kPenalties[] = {0, 1, 4, kAvoidSpare};
    constexpr double kNoises[] = {0, 0.005, 0.02, 0.05};
    if (!known) recipe.spare_penalty = kPenalties[random() % std::size(kPenalties)];
    const double noise = known ? 0 : kNoises[random() % std::size(kNoises)];
    ExactStrategy strategy{recipe.first, recipe.spare_penalty, PreferenceOf(recipe.preference)};
    Shuffle(strategy.preference, noise, random);
    const std::uint64_t nodes = 3 * instance_.size() + 100;
    if (known) return {std::move(strategy), nodes << (lap > 0 || instance_.size() > 16 ? lap : 6)};
    // Luby, Sinclair, Zuckerman 1993: 1 1 2 1 1 2 4 ...
    return {std::move(strategy), nodes << std::min(7, std::countr_zero(number + 1))};
  }

 private:
  Order PreferenceOf(Preference preference) const {
    const auto width = [&](std::uint32_t i) { return -static_cast<double>(instance_.Length(instance_.blocks[i])); };
    const auto size = [&](std::uint32_t i) { return -static_cast<double>(instance_.blocks[i].size); };
    const auto load = [&](std::uint32_t i) { return -static_cast<double>(peaks_[i]); };
    const auto area = [&](std::uint32_t i) { return -width(i) * size(i); };
    const auto key = [&](std::uint32_t i) {
      switch (preference) {
        case Preference::kWidthArea:
          return std::tuple(width(i), area(i), i);
        case Preference::kLoadArea:
          return std::tuple(load(i), area(i), i);
        case Preference::kLoadWidth:
          return std::tuple(load(i), width(i), i);
        case Preference::kArea:
          return std::tuple(area(i), width(i), i);
        case Preference::kSize:
          break;
      }
      return std::tuple(size(i), width(i), i);
    };
    Order order(instance_.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
    return order;
  }

  // Moves every block by up to `noise` of the order's length.
  static void Shuffle(Order& order, double noise, std::mt19937_64& random) {
    if (noise == 0) return;
    std::vector<std::pair<double, std::uint32_t>> keyed;
    for (std::size_t r = 0; r < order.size(); ++r) {
      const double unit = static_cast<double>(random() >> 11) * 0x1p-52 - 1;  // in [-1, 1)
      keyed.emplace_back(static_cast<double>(r) + unit * noise * static_cast<double>(order.size()), order[r]);
    }
    std::sort(keyed.begin(), keyed.end());
    for (std::size_t r = 0; r < order.size(); ++r) order[r] = keyed[r].second;
  }

  const Instance& instance_;
  const std::uint64_t seed_;
  const std::uint64_t last_known_lap_;
  std::vector<Bytes> peaks_;
};

}  // namespace

ExactResult SearchWithRestarts(const Instance& instance, Bytes ceiling, const ExactBudget& budget,
                               const std::function<bool()>& stop) {
  const Portfolio portfolio(instance, budget);
  const std::uint64_t end = budget.first_try + budget.tries;
  std::atomic<std::uint64_t> next{budget.first_try};
  std::atomic<std::uint64_t> decided{end};  // the lowest try that came to a result
  std::mutex mutex;
  ExactResult result;
  const auto work = [&] {
    for (;;) {
      const std::uint64_t number = next.fetch_add(1);
      if (number >= decided.load() || stop()) return;
      const auto [strategy, nodes] = portfolio.Try(number);
      // A later try goes on only while no earlier one has come to a result.
      const auto enough = [&] { return decided.load(std::memory_order_relaxed) < number || stop(); };
      ExactResult attempt = SearchExactly(instance, ceiling, strategy, nodes, enough);
      const std::scoped_lock lock(mutex);
      result.nodes += attempt.nodes;
      if (attempt.kind == ExactResult::Kind::kGaveUp || number > decided.load()) continue;
      decided.store(number);
      result.kind = attempt.kind;
      result.offsets = std::move(attempt.offsets);
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned k = 1; k < budget.threads; ++k) threads.emplace_back(work);
  work();
  threads.clear();
  return result;
}

}  // namespace stalloc::planner
