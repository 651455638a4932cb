#include "planner/plan_front.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

#include "angle_selection.h"
#include "objective_table.h"
#include "orders.h"
#include "plan_decoder.h"
#include "plan_merits.h"
#include "planner/lower_bound.h"
#include "planner/many_objective.h"
#include "planner/problem_check.h"
#include "planner/validate.h"
#include "slot_measure.h"
#include "stream_waits.h"

namespace stalloc::planner {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPopulation = 40;

bool IsComplete(const std::vector<Slot>& slots, std::size_t count) {
  const auto missing = [](const Slot& slot) { return slot.kind == Slot::Kind::kNone; };
  return slots.size() == count && std::none_of(slots.begin(), slots.end(), missing);
}

// The plans that are not dominated among those seen. Plans of the search are kept as keys, since thousands of slots
// each would add up, and decoded again in the end.
class Archive {
 public:
  struct Entry {
    PlanMerits merits;
    std::vector<double> keys;
    std::vector<Slot> slots;  // empty: decode the keys
    std::string method;
  };

  void Offer(Entry entry) {
    for (const Entry& other : entries_) {
      if (other.merits == entry.merits || Dominates(other.merits, entry.merits)) return;
    }
    std::erase_if(entries_, [&](const Entry& other) { return Dominates(entry.merits, other.merits); });
    entries_.push_back(std::move(entry));
  }

  std::vector<Entry>& entries() { return entries_; }

 private:
  std::vector<Entry> entries_;
};

class FrontSearch {
 public:
  FrontSearch(const PageProblem& problem, const PlanFrontOptions& options)
      : problem_(problem), options_(options), begin_(Clock::now()), meter_(problem) {
    any_waits_ = problem;
    any_waits_.problem = WithWaitsFrom(problem.problem, 0);
    any_waits_.problem.capacity_bytes = kUnlimited;
    no_waits_ = any_waits_;
    no_waits_.problem = WithWaitsFrom(problem.problem, kUnlimited);
    no_waits_.problem.capacity_bytes = kUnlimited;
  }

  PlanFront Run() {
    PlanFront front;
    front.lower_bound_pages = PagesOf(LowerBound(any_waits_.problem));
    OfferSolvers();
    Search(&front);
    front.found = archive_.entries().size();
    for (const std::size_t index : Thinned()) AddChoice(std::move(archive_.entries()[index]), &front);
    std::sort(front.choices.begin(), front.choices.end(), [](const PlanChoice& a, const PlanChoice& b) {
      const auto key = [](const PlanMerits& m) {
        return std::tuple(m.pages, m.handles, m.waits, m.moves, -m.headroom);
      };
      return key(a.merits) < key(b.merits);
    });
    return front;
  }

 private:
  bool OutOfTime() const {
    if (options_.stop.stop_requested()) return true;
    return options_.time_limit && Clock::now() - begin_ > *options_.time_limit;
  }

  // One of the single-objective solvers, with an eighth of the time.
  std::vector<Slot> Solved(const PageProblem& problem) const {
    SolveOptions options;
    options.seed = options_.seed;
    options.threads = options_.threads;
    options.effort = options_.effort;
    options.stop = options_.stop;
    if (options_.time_limit) options.time_limit = *options_.time_limit / 8;
    return PlanPages(problem, options).slots;
  }

  void Offer(std::vector<Slot> slots, const char* method) {
    const PlanMerits merits = meter_.Measure(slots);
    archive_.Offer({merits, {}, std::move(slots), method});
  }

  void OfferSolvers() {
    if (IsComplete(problem_.incumbent, problem_.problem.requests.size()) &&
        !FindSlotViolation(any_waits_.problem, problem_.incumbent)) {
      Offer(problem_.incumbent, "incumbent");
    }
    const bool several = HasSeveralStreams(problem_.problem);
    Offer(Solved(FromNothing(any_waits_)), "fewest pages");
    if (several) Offer(Solved(FromNothing(no_waits_)), "fewest pages, no wait");
    // Runs alone, whose order from bottom to top the search blends.
    OfferRuns(any_waits_, "runs alone");
    if (several) OfferRuns(no_waits_, "runs alone, no wait");
    PageProblem grown = any_waits_;
    for (Request& request : grown.problem.requests) {
      request.size_bytes += (request.size_bytes + kGrowthShare - 1) / kGrowthShare;
    }
    OfferRuns(std::move(grown), "room to grow");
    const Instance instance = MakeInstance(any_waits_.problem);
    for (const OrderRule rule : {OrderRule::kLoad, OrderRule::kSize, OrderRule::kArea, OrderRule::kBegin}) {
      bases_.push_back(MakeOrder(instance, rule));
    }
  }

  // Where no page is held, none is free of charge.
  static PageProblem FromNothing(PageProblem problem) {
    problem.held_pages = 0;
    problem.incumbent.clear();
    return problem;
  }

  void OfferRuns(PageProblem problem, const char* method) {
    problem = FromNothing(std::move(problem));
    problem.paged_from_bytes = kUnlimited;
    std::vector<Slot> slots = Solved(problem);
    Order order(slots.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return slots[a].offset_bytes < slots[b].offset_bytes; });
    bases_.push_back(std::move(order));
    Offer(std::move(slots), method);
  }

  // In comparable units; those that no plan of this problem differs in are left out.
  std::vector<double> ObjectivesOf(const PlanMerits& merits, double lower_bound_pages) const {
    const auto requests = static_cast<double>(problem_.problem.requests.size());
    const double pages = std::max(lower_bound_pages, 1.0);
    std::vector<double> objectives = {static_cast<double>(merits.pages) / pages,
                                      static_cast<double>(merits.handles) / pages, 1 - merits.headroom};
    if (HasSeveralStreams(problem_.problem)) objectives.push_back(static_cast<double>(merits.waits) / requests);
    if (!problem_.incumbent.empty()) objectives.push_back(static_cast<double>(merits.moves) / requests);
    return objectives;
  }

  void Search(PlanFront* front) {
    if (problem_.problem.requests.empty() || options_.evaluations == 0) return;
    decoder_ = std::make_unique<PlanDecoder>(problem_, bases_);
    const auto bound = static_cast<double>(front->lower_bound_pages);
    std::stop_source out_of_time;
    ManyObjectiveProblem search;
    search.lower.assign(decoder_->keys(), 0);
    search.upper.assign(decoder_->keys(), 1);
    search.objectives = ObjectivesOf({}, bound).size();
    search.evaluate = [&](std::span<double> keys, std::span<double> objectives) {
      const PlanMerits merits = meter_.Measure(decoder_->Decode(keys));
      const std::vector<double> values = ObjectivesOf(merits, bound);
      std::copy(values.begin(), values.end(), objectives.begin());
      archive_.Offer({merits, {keys.begin(), keys.end()}, {}, "search"});
      if (OutOfTime()) out_of_time.request_stop();
    };
    ManyObjectiveOptions options;
    options.population = kPopulation;
    options.evaluations = options_.evaluations;
    options.seed = options_.seed;
    options.resolution = 0;
    options.stop = out_of_time.get_token();
    options.start = StartingPoints();
    if (OutOfTime()) return;
    front->evaluations = SearchByCorners(search, options).evaluations;
  }

  // Each base order as it is; and, in the first, every setting on its own, without waits and with any.
  std::vector<std::vector<double>> StartingPoints() const {
    std::vector<std::vector<double>> points;
    for (std::size_t base = 0; base < bases_.size(); ++base) points.push_back(decoder_->KeysOf(base, {}));
    for (const double waits : {1.0, 0.0}) {
      if (waits == 0 && !HasSeveralStreams(problem_.problem)) continue;
      for (const double share : {0.25, 0.5, 0.75, 1.0}) {
        points.push_back(decoder_->KeysOf(0, {.waits = waits, .growth = share}));
        if (problem_.incumbent.empty()) continue;
        points.push_back(decoder_->KeysOf(0, {.waits = waits, .kept = share}));
        points.push_back(decoder_->KeysOf(0, {.ceiling = (1 - share) / 2, .waits = waits, .kept = 1}));
      }
    }
    return points;
  }

  // Which entries of the archive are given: the best in each merit, and of the others the most different.
  std::vector<std::size_t> Thinned() {
    const std::vector<Archive::Entry>& entries = archive_.entries();
    std::vector<std::size_t> kept;
    if (entries.size() <= options_.max_choices) {
      kept.resize(entries.size());
      std::iota(kept.begin(), kept.end(), 0);
      return kept;
    }
    const auto columns = ObjectivesOf({}, 1).size();
    ObjectiveTable table(entries.size(), columns);
    for (std::size_t row = 0; row < entries.size(); ++row) {
      const std::vector<double> values = ObjectivesOf(entries[row].merits, 1);
      std::copy(values.begin(), values.end(), table[row].begin());
    }
    for (std::size_t k = 0; k < columns; ++k) {
      std::size_t best = 0;
      for (std::size_t row = 1; row < entries.size(); ++row) {
        if (table[row][k] < table[best][k]) best = row;
      }
      kept.push_back(best);
    }
    for (const std::uint32_t row : SelectSurvivors(table, options_.max_choices, 0).rows) {
      if (kept.size() < std::max(options_.max_choices, columns)) kept.push_back(row);
    }
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    return kept;
  }

  void AddChoice(Archive::Entry entry, PlanFront* front) {
    PlanChoice choice{entry.merits, std::move(entry.slots), std::move(entry.method)};
    if (choice.slots.empty() && !entry.keys.empty()) choice.slots = decoder_->Decode(entry.keys);
    if (!FindSlotViolation(any_waits_.problem, choice.slots)) front->choices.push_back(std::move(choice));
  }

  const PageProblem& problem_;
  const PlanFrontOptions& options_;
  const Clock::time_point begin_;
  PlanMeter meter_;
  PageProblem any_waits_;
  PageProblem no_waits_;
  std::vector<Order> bases_;
  std::unique_ptr<PlanDecoder> decoder_;
  Archive archive_;
};

}  // namespace

PlanFront SearchPlanFront(const PageProblem& problem, const PlanFrontOptions& options) {
  PlanFront front;
  if (std::optional<std::string> reason = FindMalformed(problem.problem)) {
    front.error = std::move(*reason);
  } else if (!problem.incumbent.empty() && problem.incumbent.size() != problem.problem.requests.size()) {
    front.error = "incumbent has another number of slots than there are requests";
  } else if (problem.problem.alignment_bytes > kPageBytes) {
    front.error = "alignment is larger than a page";
  }
  if (!front.error.empty()) return front;
  return FrontSearch(problem, options).Run();
}

const PlanChoice* ChooseByPressure(const PlanFront& front, std::uint64_t available_pages) {
  const auto small_first = [](const PlanMerits& m) { return std::tuple(m.pages, m.handles, m.waits, m.moves); };
  const auto cheap_first = [](const PlanMerits& m) { return std::tuple(m.handles, m.waits, m.moves, m.pages); };
  const PlanChoice* smallest = nullptr;
  const PlanChoice* cheapest = nullptr;
  for (const PlanChoice& choice : front.choices) {
    if (smallest == nullptr || small_first(choice.merits) < small_first(smallest->merits)) smallest = &choice;
    if (choice.merits.pages > available_pages) continue;
    if (cheapest == nullptr || cheap_first(choice.merits) < cheap_first(cheapest->merits)) cheapest = &choice;
  }
  return cheapest != nullptr ? cheapest : smallest;
}

}  // namespace stalloc::planner
