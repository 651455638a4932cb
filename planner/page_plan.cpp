#include "planner/page_plan.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "instance.h"
#include "page_packer.h"
#include "planner/lower_bound.h"
#include "planner/problem_check.h"
#include "planner/validate.h"
#include "slot_measure.h"

namespace stalloc::planner {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kIncumbent = "incumbent";
constexpr const char* kRepaired = "repaired incumbent";

// Fills in everything that follows from the slots.
void Measure(const PageProblem& problem, PagePlan* plan) {
  const SlotMeasure measure = MeasureSlots(problem, plan->slots);
  plan->page_count = measure.page_count;
  plan->handles_to_map = measure.handles_to_map;
  plan->changes = measure.changes;
  plan->height_bytes = measure.height_bytes;
}

// Pages that are held anyway are not saved by a plan that leaves them out.
auto Merit(const PageProblem& problem, const PagePlan& plan) {
  return std::tuple(plan.handles_to_map > problem.most_handles, std::max(plan.page_count, problem.held_pages),
                    plan.handles_to_map, plan.changes);
}

class PagePlanner {
 public:
  PagePlanner(const PageProblem& problem, const SolveOptions& options)
      : problem_(problem),
        options_(options),
        begin_(Clock::now()),
        instance_(MakeInstance(problem.problem)),
        packer_(instance_, Sizes(), problem.paged_from_bytes) {}

  PagePlan Run() {
    report_.lower_bound_pages = LowestPages();
    OfferIncumbent();
    if (!best_ || !MapsNothing()) Search();
    PagePlan plan = std::move(*best_);
    plan.lower_bound_pages = report_.lower_bound_pages;
    plan.contiguous_pages = report_.contiguous_pages;
    plan.paged_pages = report_.paged_pages;
    plan.cut_short = report_.cut_short;
    const bool fits = plan.height_bytes <= problem_.problem.capacity_bytes;
    plan.status = !fits                                       ? Solution::Status::kInfeasible
                  : plan.page_count == plan.lower_bound_pages ? Solution::Status::kOptimal
                                                              : Solution::Status::kFeasible;
    return plan;
  }

 private:
  void Search() {
    OfferRuns();
    report_.paged_pages = OfferPages(problem_.paged_from_bytes);
    OfferFewerPaged();
    Lower();
    Straighten();
  }

  // On no more pages than are held: what is left to find would at best differ in fewer slots from the incumbent.
  bool MapsNothing() const { return best_->handles_to_map == 0 && best_->page_count <= problem_.held_pages; }

  std::vector<Bytes> Sizes() const {
    std::vector<Bytes> sizes;
    for (const Request& request : problem_.problem.requests) sizes.push_back(request.size_bytes);
    return sizes;
  }

  // Distinct pages at the worst moment: at least the fixed blocks' and what live requests need beyond the room that is
  // left in those. Also all of the fixed blocks' pages at any time.
  std::uint64_t LowestPages() const {
    std::unordered_set<std::uint64_t> fixed_pages;
    for (const FixedBlock& block : problem_.problem.fixed) {
      const Bytes end = block.offset + block.size_bytes;
      for (std::uint64_t page = block.offset / kPageBytes; page < PagesOf(end); ++page) fixed_pages.insert(page);
    }
    const std::uint64_t live = PagesOf(PeakLive(problem_.problem));
    return std::max<std::uint64_t>(fixed_pages.size(), live);
  }

  // At least one try has been made before time counts.
  bool OutOfTime() {
    if (options_.stop.stop_requested()) return true;
    if (!options_.time_limit || Clock::now() - begin_ <= *options_.time_limit) return false;
    report_.cut_short = true;
    return true;
  }

  bool Offer(std::vector<Slot> slots, const char* method) {
    PagePlan plan;
    plan.slots = std::move(slots);
    plan.method = method;
    Measure(problem_, &plan);
    if (best_ && Merit(problem_, plan) >= Merit(problem_, *best_)) return false;
    Problem unlimited = problem_.problem;
    unlimited.capacity_bytes = kUnlimited;
    if (FindSlotViolation(unlimited, plan.slots)) return false;
    best_ = std::move(plan);
    return true;
  }

  void OfferIncumbent() {
    const std::vector<Slot>& slots = problem_.incumbent;
    const auto missing = [](const Slot& slot) { return slot.kind == Slot::Kind::kNone; };
    if (slots.size() != instance_.size() || std::any_of(slots.begin(), slots.end(), missing)) return;
    if (!Offer(slots, kIncumbent)) OfferRepaired();
  }

  // The incumbent but for the requests that are in the way of others, or of fixed blocks: often a few small ones. The
  // larger of two stays.
  void OfferRepaired() {
    Order order(instance_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return instance_.blocks[a].size > instance_.blocks[b].size;
    });
    packer_.Clear();
    std::vector<Slot> slots = problem_.incumbent;
    Order moved;
    for (const std::uint32_t i : order) {
      packer_.Fits(i, slots[i]) ? packer_.Take(i, slots[i]) : moved.push_back(i);
    }
    constexpr std::uint64_t kNoCeiling = std::uint64_t{1} << 32;
    for (const std::uint32_t i : moved) {
      std::optional<Slot> slot = packer_.FindRun(i, problem_.held_pages);
      if (!slot) slot = packer_.FindPages(i, problem_.held_pages);
      if (!slot) slot = packer_.FindRun(i, kNoCeiling);
      packer_.Take(i, slots[i] = std::move(*slot));
    }
    Offer(std::move(slots), kRepaired);
  }

  void OfferRuns() {
    SolveOptions options = options_;
    if (options.time_limit) *options.time_limit = *options.time_limit * 2 / 3;
    options.progress = nullptr;
    options.good_enough_bytes = PagesOf(LowerBound(problem_.problem)) * kPageBytes;
    Problem unlimited = problem_.problem;
    unlimited.capacity_bytes = kUnlimited;
    const Clock::time_point begin = Clock::now();
    const Solution solution = Solve(unlimited, options);
    report_.cut_short = options.time_limit && Clock::now() - begin >= *options.time_limit;
    std::vector<Slot> slots(instance_.size());
    order_.resize(instance_.size());
    std::iota(order_.begin(), order_.end(), 0);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      slots[i].kind = Slot::Kind::kRun;
      slots[i].offset_bytes = solution.placement.offsets[i];
    }
    std::stable_sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return solution.placement.offsets[a] < solution.placement.offsets[b];
    });
    PagePlan runs;
    runs.slots = slots;
    Measure(problem_, &runs);
    report_.contiguous_pages = runs.page_count;
    ceiling_pages_ = PagesOf(runs.height_bytes);
    Offer(std::move(slots), "runs");
  }

  // Requests below `from` as runs at the bottom, then the others on pages, in order of time: on a line that is an
  // optimal colouring of the interval graph whose colours are pages. Returns the pages that it takes.
  std::uint64_t OfferPages(Bytes from) {
    const auto& requests = problem_.problem.requests;
    Order small;
    Order large;
    for (const std::uint32_t i : order_) {
      (requests[i].size_bytes < from ? small : large).push_back(i);
    }
    std::stable_sort(large.begin(), large.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return requests[a].begin < requests[b].begin; });
    packer_.Clear();
    std::vector<Slot> slots(instance_.size());
    constexpr std::uint64_t kNoCeiling = std::uint64_t{1} << 32;
    for (const std::uint32_t i : small) packer_.Take(i, slots[i] = *packer_.FindRun(i, kNoCeiling));
    for (const std::uint32_t i : large) packer_.Take(i, slots[i] = *packer_.FindPages(i, kNoCeiling));
    PagePlan paged;
    paged.slots = slots;
    Measure(problem_, &paged);
    Offer(std::move(slots), "pages");
    return paged.page_count;
  }

  // The same with as few of the requests on pages as will do: often the largest are all that needs them, and each page
  // of a list costs a mapping. From the largest down, until no page more is saved.
  void OfferFewerPaged() {
    Bytes largest = 0;
    for (const Request& request : problem_.problem.requests) largest = std::max(largest, request.size_bytes);
    const Bytes finest = std::max(problem_.paged_from_bytes, kPageBytes);
    if (finest == kUnlimited) return;
    Bytes from = finest;
    while (from <= largest / 4) from *= 4;
    const std::uint64_t enough = std::max(report_.paged_pages, problem_.held_pages);
    for (; from > finest; from /= 4)
      if (OfferPages(from) <= enough || OutOfTime()) return;
  }

  // Looks for the lowest ceiling under which everything fits as runs or pages. What fits nowhere is placed first in the
  // next try ("squeaky wheel", Joslin & Clements 1999).
  void Lower() {
    std::uint64_t low = LowestCeiling();
    std::uint64_t high = std::min(ceiling_pages_, best_ ? PagesOf(best_->height_bytes) : ceiling_pages_);
    while (low < high && !CannotImprove() && !OutOfTime()) {
      const std::uint64_t ceiling = low + (high - low) / 4;  // most often the bound itself is in reach
      if (TryCeiling(ceiling)) {
        high = ceiling;
      } else {
        low = ceiling + 1;
      }
    }
  }

  bool CannotImprove() const { return MapsNothing() || best_->page_count <= report_.lower_bound_pages; }

  std::uint64_t LowestCeiling() const { return PagesOf(LowerBound(problem_.problem)); }

  bool TryCeiling(std::uint64_t ceiling) {
    const int tries = std::max(1, static_cast<int>(30 * options_.effort));
    Order order = order_;
    for (int k = 0; k < tries && !OutOfTime(); ++k) {
      std::uint32_t stuck = 0;
      if (std::optional<std::vector<Slot>> slots = packer_.Pack(order, ceiling, &stuck)) {
        Offer(std::move(*slots), "runs and pages");
        return true;
      }
      const auto at = std::find(order.begin(), order.end(), stuck);
      std::rotate(order.begin(), at, at + 1);
    }
    return false;
  }

  // Gives a run to every paged request for which there is room after all: fewer handles at the same number of pages.
  void Straighten() {
    constexpr std::ptrdiff_t kMaxPaged = 256;  // each costs a rebuilt occupancy
    if (best_->method == kIncumbent || best_->method == kRepaired) return;
    std::vector<Slot> slots = best_->slots;
    const auto paged = [](const Slot& slot) { return slot.kind == Slot::Kind::kPaged; };
    if (std::count_if(slots.begin(), slots.end(), paged) > kMaxPaged) return;
    const std::uint64_t ceiling = PagesOf(best_->height_bytes);
    bool changed = false;
    for (std::uint32_t i = 0; i < slots.size() && !OutOfTime(); ++i) {
      if (slots[i].kind != Slot::Kind::kPaged) continue;
      packer_.Clear();
      for (std::uint32_t k = 0; k < slots.size(); ++k) {
        if (k != i) packer_.Take(k, slots[k]);
      }
      if (std::optional<Slot> run = packer_.FindRun(i, ceiling)) {
        slots[i] = std::move(*run);
        changed = true;
      }
    }
    if (changed) Offer(std::move(slots), "runs and pages");
  }

  const PageProblem& problem_;
  const SolveOptions& options_;
  const Clock::time_point begin_;
  const Instance instance_;
  PagePacker packer_;
  Order order_;                      // by rising offset of the plan of runs: packing in it reproduces that plan
  std::uint64_t ceiling_pages_ = 0;  // of the plan of runs
  PagePlan report_;                  // lower_bound_pages, contiguous_pages, paged_pages, cut_short
  std::optional<PagePlan> best_;
};

}  // namespace

PagePlan PlanPages(const PageProblem& problem, const SolveOptions& options) {
  PagePlan malformed;
  if (std::optional<std::string> reason = FindMalformed(problem.problem)) {
    malformed.error = std::move(*reason);
  } else if (!problem.incumbent.empty() && problem.incumbent.size() != problem.problem.requests.size()) {
    malformed.error = "incumbent has another number of slots than there are requests";
  } else if (problem.problem.alignment_bytes > kPageBytes) {
    malformed.error = "alignment is larger than a page";
  }
  if (!malformed.error.empty()) return malformed;
  return PagePlanner(problem, options).Run();
}

}  // namespace stalloc::planner
