#include "planner/solve.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "exact_portfolio.h"
#include "greedy.h"
#include "instance.h"
#include "order_search.h"
#include "planner/lower_bound.h"
#include "planner/problem_check.h"
#include "planner/stream_order.h"
#include "planner/validate.h"

namespace stalloc::planner {
namespace {

using Clock = std::chrono::steady_clock;

// Above this an exact try costs more than it is worth.
constexpr std::size_t kMaxExactBlocks = 600;
constexpr int kEndless = 1 << 30;

class Solver {
 public:
  Solver(const Problem& problem, const SolveOptions& options)
      : problem_(problem),
        options_(options),
        begin_(Clock::now()),
        instance_(MakeInstance(problem)),
        bound_(TightBound(problem, instance_)) {
    threads_ = options.threads == 0 ? std::max(1u, std::thread::hardware_concurrency()) : options.threads;
    // A capacity is a goal: what lies below it is free to be used.
    const Bytes wanted = problem.capacity_bytes == kUnlimited ? 0 : problem.capacity_bytes;
    goal_ = std::max({instance_.bound, options.good_enough_bytes, wanted});
    floor_ = instance_.bound;
    has_capacity_ = wanted > 0;
  }

  void Run() {
    RunGreedy(instance_);
    // Fewer constraints do not make every greedy pass better: so the plan that knows no order is tried, too.
    if (instance_.streams > 1 && !Done() && !OutOfTime()) RunGreedy(MakeInstance(HeldForAllStreams(problem_)));
    if (options_.effort <= 0) return;
    // With a deadline the search goes on until then, otherwise for as long as effort says.
    const bool exact = instance_.fixed.empty() && instance_.streams == 1 && instance_.size() <= kMaxExactBlocks;
    const auto rounds = [&](double count) {
      return options_.time_limit ? kEndless : std::max(1, static_cast<int>(count * options_.effort));
    };
    RunOrderSearch(exact ? 4 : rounds(20));
    if (exact) RunExact(rounds(2));
  }

  Packing& best() { return *best_; }
  Bytes bound() const { return bound_; }
  bool proven() const { return best_->height <= floor_; }
  Bytes floor() const { return floor_; }

 private:
  bool Done() const { return best_->height <= goal_ || best_->height <= floor_; }

  bool OutOfTime() const {
    if (options_.stop.stop_requested()) return true;
    return options_.time_limit && Clock::now() - begin_ > *options_.time_limit;
  }

  void Offer(std::vector<Bytes> offsets, std::string method) {
    Packing packing;
    packing.offsets = std::move(offsets);
    for (std::size_t i = 0; i < instance_.size(); ++i) {
      packing.height = std::max(packing.height, packing.offsets[i] + instance_.blocks[i].size);
    }
    packing.method = std::move(method);
    if (!best_ || packing.height < best_->height) best_ = std::move(packing);
    Report();
  }

  void Report() {
    const Clock::time_point now = Clock::now();
    if (!options_.progress || now - reported_ < std::chrono::milliseconds(200)) return;
    reported_ = now;
    options_.progress({best_->height, bound_, now - begin_, best_->method});
  }

  void RunGreedy(const Instance& instance) {
    if (best_ && instance.bound >= best_->height) return;
    Occupancy occupancy(instance);
    for (const Fit fit : {Fit::kFirst, Fit::kBest}) {
      for (const OrderRule rule : kOrderRules) {
        if (best_ && (Done() || OutOfTime())) return;
        std::optional<Packing> packing =
            PlaceInOrder(instance, MakeOrder(instance, rule), fit, best_ ? best_->height - 1 : kUnlimited, occupancy);
        if (!packing) continue;
        best_start_ = {rule, fit};
        Offer(std::move(packing->offsets),
              std::string(NameOf(rule)) + (fit == Fit::kFirst ? " first fit" : " best fit"));
      }
    }
  }

  // Looks for the goal itself first, then halves the distance between what is out of reach and what was found. Each
  // round tries harder.
  void RunExact(int rounds) {
    std::uint64_t first_try = 0;
    Bytes unit = 0;  // every height is a multiple of it
    for (const Block& block : instance_.blocks) unit = std::gcd(unit, block.size);
    for (int round = 0; round < rounds && !Done(); ++round) {
      Bytes low = std::max(goal_, floor_);
      bool first = true;
      const bool closes_in = !has_capacity_ || round % 4 == 3;  // the best height found is told, too
      while (low < best_->height && !Done() && !OutOfTime() && (first || closes_in)) {
        const Bytes ceiling = first ? low : (low + (best_->height - low) / 2) / unit * unit;
        // Where nobody says that the goal is in reach, a few tries are enough to begin with.
        const std::uint64_t tries = first && round == 0 && closes_in ? 4 : std::uint64_t{12} << std::min(round, 20);
        const ExactResult result =
            SearchWithRestarts(instance_, std::min(ceiling, best_->height - 1),
                               {first_try, tries, options_.seed, threads_, options_.time_limit.has_value()},
                               [this] { return OutOfTime(); });
        first = false;
        if (result.kind == ExactResult::Kind::kFound) {
          Offer(result.offsets, "exact");
        } else {
          if (result.kind == ExactResult::Kind::kNone) floor_ = std::max(floor_, ceiling / unit * unit + unit);
          low = ceiling / unit * unit + unit;
        }
        Report();
      }
      first_try += std::uint64_t{12} << std::min(round, 20);
      if (OutOfTime()) return;
    }
  }

  struct Start {
    OrderRule rule;
    Fit fit;
  };

  // Rounds of a fixed number of tries, after which all threads go on from the best height: so the result does not
  // depend on their speed. Half of the rounds start from the best greedy order, the others from each of a list in turn.
  void RunOrderSearch(int max_idle_rounds) {
    constexpr Start kStarts[] = {
        {OrderRule::kLoad, Fit::kFirst},       {OrderRule::kArea, Fit::kFirst}, {OrderRule::kLoadLength, Fit::kBest},
        {OrderRule::kLength, Fit::kBest},      {OrderRule::kSize, Fit::kFirst}, {OrderRule::kLoadLength, Fit::kFirst},
        {OrderRule::kSizeLength, Fit::kFirst}, {OrderRule::kBegin, Fit::kBest}, {OrderRule::kEnd, Fit::kBest}};
    std::vector<std::unique_ptr<OrderSearch>> searches(threads_ * (1 + std::size(kStarts)));
    int idle = 0;
    for (std::size_t round = 0; idle < max_idle_rounds && !Done() && !OutOfTime(); ++round, ++idle) {
      const std::size_t which = round % 2 == 0 ? 0 : 1 + round / 2 % std::size(kStarts);
      for (unsigned k = 0; k < threads_; ++k) {
        std::unique_ptr<OrderSearch>& search = searches[which * threads_ + k];
        if (search) continue;
        const Start start = which == 0 ? best_start_ : kStarts[which - 1];
        search = std::make_unique<OrderSearch>(instance_, MakeOrder(instance_, start.rule), start.fit,
                                               options_.seed * 1000 + which * threads_ + k);
      }
      // Halfway to the goal, or only just better where that was too much.
      const Bytes low = std::max(goal_, floor_);
      const Bytes ceiling = idle / 2 % 2 == 0 ? low + (best_->height - 1 - low) / 2 : best_->height - 1;
      std::vector<std::optional<Packing>> found(threads_);
      const auto work = [&](unsigned k) {
        found[k] = searches[which * threads_ + k]->Run(ceiling, 50, [this] { return OutOfTime(); });
      };
      {
        std::vector<std::jthread> threads;
        for (unsigned k = 1; k < threads_; ++k) threads.emplace_back(work, k);
        work(0);
      }
      const Bytes before = best_->height;
      for (std::optional<Packing>& packing : found) {
        if (packing) Offer(std::move(packing->offsets), "order search");
      }
      if (best_->height < before) idle = -1;
      Report();
    }
  }

  const Problem& problem_;
  const SolveOptions& options_;
  const Clock::time_point begin_;
  const Instance instance_;
  const Bytes bound_;
  unsigned threads_ = 1;
  Bytes goal_ = 0;   // a height that ends the search
  Bytes floor_ = 0;  // no placement is lower: the bound, or more where a search has proven it
  bool has_capacity_ = false;
  Start best_start_{OrderRule::kSize, Fit::kFirst};  // of the best greedy pass
  std::optional<Packing> best_;
  Clock::time_point reported_;
};

}  // namespace

Solution Solve(const Problem& problem, const SolveOptions& options) {
  Solution solution;
  if (std::optional<std::string> reason = FindMalformed(problem)) {
    solution.error = std::move(*reason);
    return solution;
  }
  Solver solver(problem, options);
  solver.Run();
  solution.lower_bound_bytes = solver.bound();
  solution.placement = MakePlacement(problem, std::move(solver.best().offsets));
  solution.method = std::move(solver.best().method);
  Problem unlimited = problem;
  unlimited.capacity_bytes = kUnlimited;
  if (std::optional<std::string> violation = FindViolation(unlimited, solution.placement)) {
    solution.error = "internal error: " + *violation;
    solution.placement = {};
    return solution;
  }
  const Bytes height = solution.placement.height_bytes;
  if (height > problem.capacity_bytes) {
    solution.status = Solution::Status::kInfeasible;
    solution.proven = solution.lower_bound_bytes > problem.capacity_bytes ||
                      (problem.alignment_bytes == 1 && solver.floor() > problem.capacity_bytes);
  } else {
    // Heights are proven in rounded sizes: with an alignment the topmost block's padding is left open.
    solution.proven = height == solution.lower_bound_bytes || (problem.alignment_bytes == 1 && solver.proven());
    solution.status = solution.proven ? Solution::Status::kOptimal : Solution::Status::kFeasible;
  }
  return solution;
}

}  // namespace stalloc::planner
