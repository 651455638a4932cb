#include "planner/solve.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "exact_portfolio.h"
#include "greedy.h"
#include "instance.h"
#include "order_search.h"
#include "planner/problem_check.h"
#include "planner/stream_order.h"
#include "planner/validate.h"
#include "segments.h"

namespace stalloc::planner {
namespace {

using Clock = std::chrono::steady_clock;

// Above this an exact try costs more than it is worth.
constexpr std::size_t kMaxExactBlocks = 600;
constexpr int kEndless = 1 << 30;
// From so many on, time is cut into segments; from the second number on, before anything else is tried.
constexpr std::size_t kManyBlocks = 5000;
constexpr std::size_t kTooManyBlocks = 40000;
// This close to the bound, as a part of it, passes over too many blocks are not worth their time any more.
constexpr Bytes kCloseShare = 2000;
constexpr int kIdleRoundsOfSegments = 12;

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
    // The check at the end takes up to twice as long as what was done so far.
    if (options.time_limit) deadline_ = begin_ + *options.time_limit - 2 * (Clock::now() - begin_);
    has_capacity_ = wanted > 0;
  }

  void Run() {
    const bool straight = problem_.period == 0 && instance_.streams == 1;
    if (straight && instance_.size() >= kTooManyBlocks && RunSegments()) return;
    RunGreedy(instance_);
    if (straight && instance_.size() >= kManyBlocks && instance_.size() < kTooManyBlocks && !Close() && !OutOfTime()) {
      RunSegments();
    }
    // Fewer constraints do not make every greedy pass better: so the plan that knows no order is tried, too.
    if (instance_.streams > 1 && !Done() && !OutOfTime()) RunGreedy(MakeInstance(HeldForAllStreams(problem_)));
    if (options_.effort <= 0) return;
    // With a deadline the search goes on until then, otherwise for as long as effort says.
    const bool exact = instance_.fixed.empty() && instance_.size() <= kMaxExactBlocks;
    const auto rounds = [&](double count) {
      return options_.time_limit ? kEndless : std::max(1, static_cast<int>(count * options_.effort));
    };
    RunOrderSearch(exact ? 4 : rounds(10));
    if (exact) RunExact(rounds(2));
  }

  Packing& best() { return *best_; }
  Bytes bound() const { return bound_; }
  bool proven() const { return best_->height <= floor_; }
  Bytes floor() const { return floor_; }

 private:
  bool Done() const { return best_->height <= goal_ || best_->height <= floor_; }

  bool Close() const { return best_->height <= std::max(goal_, floor_ + floor_ / kCloseShare); }

  bool OutOfTime() const {
    if (options_.stop.stop_requested()) return true;
    return deadline_ && Clock::now() > *deadline_;
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
            PlaceInOrder(instance, MakeOrder(instance, rule), fit, best_ ? best_->height - 1 : kUnlimited, occupancy,
                         [this] { return best_ && OutOfTime(); });
        if (!packing) continue;
        Offer(std::move(packing->offsets),
              std::string(NameOf(rule)) + (fit == Fit::kFirst ? " first fit" : " best fit"));
      }
    }
  }

  // Whether what was found is close to the bound; rounds of laps in the highest segments do not lower it any more.
  bool RunSegments() {
    Segments segments(instance_, options_.seed, threads_);
    if (segments.size() < 2) return false;
    const Bytes low = std::max(goal_, floor_);
    const Bytes close = std::max(low, floor_ + floor_ / kCloseShare);
    segments.Place(close);
    Offer(segments.offsets(), "segments");
    const double effort = options_.time_limit && options_.effort > 0 ? 1 : options_.effort;
    const int rounds = static_cast<int>(std::ceil(kIdleRoundsOfSegments * effort));
    for (int idle = 0; idle < rounds && !Done() && !OutOfTime(); ++idle) {
      // Close to the bound first, then halfway to it, and less and less ambitious where that is too much.
      const int halves = Close() ? 1 + idle / 4 : (idle + 1) / 2;
      const Bytes above = best_->height - 1 - low;
      const Bytes ceiling = halves == 0 ? close : low + above - (above >> halves);
      if (segments.Lower(ceiling, [this] { return OutOfTime(); }) > 0) idle = -1;
      Offer(segments.offsets(), "segments");
    }
    return Close();
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

  // Rounds of laps; all threads go on from the best height that a round has found.
  void RunOrderSearch(int max_idle_rounds) {
    std::vector<OrderSearch> searches;
    for (unsigned k = 0; k < threads_; ++k) searches.emplace_back(instance_, options_.seed);
    LapSchedule schedule;
    for (int idle = 0; idle < max_idle_rounds && !Done() && !OutOfTime(); ++idle) {
      // Halfway to the goal, or only just better in case that is too much.
      const Bytes low = std::max(goal_, floor_);
      const Bytes ceiling = idle % 3 == 0 ? best_->height - 1 : low + (best_->height - 1 - low) / 2;
      const std::vector<std::uint64_t> laps = schedule.Next();
      std::optional<LapResult> found = RunLaps(searches, laps, ceiling, [this] { return OutOfTime(); });
      schedule.Report(laps, found ? found->which : LapSchedule::npos);
      if (found) {
        Offer(std::move(found->packing.offsets), "order search");
        idle = -1;
      }
      Report();
    }
  }

  const Problem& problem_;
  const SolveOptions& options_;
  const Clock::time_point begin_;
  const Instance instance_;
  const Bytes bound_;
  std::optional<Clock::time_point> deadline_;
  unsigned threads_ = 1;
  Bytes goal_ = 0;   // a height that ends the search
  Bytes floor_ = 0;  // no placement is lower: the bound, or more where a search has proven it
  bool has_capacity_ = false;
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
