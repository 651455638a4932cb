// Prints, for every data set, the choice of plans that the search finds beside what the single-objective solvers find.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "data.h"
#include "planner/online.h"
#include "planner/plan_front.h"

namespace {

using namespace stalloc;
using planner::PlanMerits;

// Each solver on its own merit. A plan that nobody moved and the plan with room for all are there by definition.
struct Alone {
  std::uint64_t pages = 0;
  std::uint64_t handles = 0;
  std::uint64_t waits = 0;
  std::uint64_t moves = 0;
  double headroom = 0;
};

Alone SolveAlone(const planner::PageProblem& problem) {
  Alone alone;
  planner::PageProblem any = problem;  // waits allowed
  any.problem.streams = 0;
  any.problem.reusable.clear();
  const auto merits = [&](const planner::PageProblem& solved) {
    return planner::MeritsOf(problem, planner::PlanPages(solved).slots);
  };
  planner::PageProblem from_nothing = any;  // where no page is held, none is free of charge
  from_nothing.held_pages = 0;
  from_nothing.incumbent.clear();
  alone.pages = merits(from_nothing).pages;
  alone.waits = merits(problem).waits;
  planner::PageProblem runs = any;
  runs.paged_from_bytes = planner::kUnlimited;
  runs.incumbent.clear();
  alone.handles = std::min(merits(runs).handles, planner::MeritsOf(problem, problem.incumbent).handles);
  for (planner::Request& request : runs.problem.requests) {
    request.size_bytes += (request.size_bytes + planner::kGrowthShare - 1) / planner::kGrowthShare;
  }
  alone.headroom = merits(runs).headroom;
  alone.moves = planner::MeritsOf(problem, problem.incumbent).moves;
  return alone;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The choice of plans of each data set, as Markdown.");
  const char* const set = std::getenv("STALLOC_SHARED_DATA");
  std::string folder = set != nullptr ? set : "../shared/data";
  std::vector<std::string> filters = {"training_traces/vpp", "training_traces/moe", "training_traces/bert-var"};
  planner::PlanFrontOptions options;
  std::uint32_t streams = 0;
  planner::Time between = 100;
  bool list = false;
  app.add_option("--data", folder, "folder of the data sets");
  app.add_option("--filter", filters, "only sets whose name contains one of these");
  app.add_option("--evaluations", options.evaluations, "plans tried by the search");
  app.add_option("--choices", options.max_choices, "plans given at most");
  app.add_option("--seed", options.seed, "seed of the search");
  app.add_option("--streams", streams, "deal the requests out to so many streams")->check(CLI::Range(2, 64));
  app.add_option("--between", between, "with --streams: events between two waits of one stream for another");
  app.add_flag("--list", list, "also every choice");
  CLI11_PARSE(app, argc, argv);

  std::printf("| data | requests | choices (found) | seconds | | pages | handles | waits | moves | headroom |\n");
  std::printf("|---|---|---|---|---|---|---|---|---|---|\n");
  for (const std::string& filter : filters) {
    for (bench::DataSet& data : bench::LoadDataSets(folder, filter)) {
      planner::PageProblem problem;
      problem.problem = streams > 0 ? bench::OnStreams(data.problem, streams, between) : std::move(data.problem);
      problem.incumbent = planner::PlaceOnline(problem.problem);
      problem.held_pages = planner::MeritsOf(problem, problem.incumbent).pages;
      const Alone alone = SolveAlone(problem);
      const auto begin = std::chrono::steady_clock::now();
      const planner::PlanFront front = planner::SearchPlanFront(problem, options);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      PlanMerits best = front.choices.front().merits;
      for (const planner::PlanChoice& choice : front.choices) {
        const PlanMerits& m = choice.merits;
        best = {std::min(best.pages, m.pages), std::min(best.handles, m.handles), std::min(best.waits, m.waits),
                std::min(best.moves, m.moves), std::max(best.headroom, m.headroom)};
      }
      const auto row = [](const char* title, const auto& m) {
        std::printf("%s | %llu | %llu | %llu | %llu | %.1f %% |\n", title, static_cast<unsigned long long>(m.pages),
                    static_cast<unsigned long long>(m.handles), static_cast<unsigned long long>(m.waits),
                    static_cast<unsigned long long>(m.moves), 100 * m.headroom);
      };
      std::printf("| %s | %zu | %zu (%llu) | %.1f ", data.name.c_str(), problem.problem.requests.size(),
                  front.choices.size(), static_cast<unsigned long long>(front.found), seconds.count());
      row("| corners", best);
      row("| | | | | alone", alone);
      for (const planner::PlanChoice& choice : front.choices) {
        if (list) row(("| | | | | " + choice.method).c_str(), choice.merits);
      }
      std::fflush(stdout);
    }
  }
}
