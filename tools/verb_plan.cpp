// stalloc plan: places the requests of a file as low as they will go, and says how close to the lower bound that is; or
// offers a choice of plans.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

#include "planner/csv.h"
#include "planner/online.h"
#include "planner/plan_front.h"
#include "planner/problem_check.h"
#include "tools/front_report.h"
#include "tools/interrupt.h"
#include "tools/load.h"
#include "tools/options.h"
#include "tools/output_file.h"
#include "tools/plan_report.h"
#include "tools/plan_search.h"
#include "tools/planning_input.h"
#include "tools/text.h"
#include "tools/verbs.h"

namespace stalloc::tools {
namespace {

namespace fs = std::filesystem;
using Seconds = std::chrono::duration<double>;

constexpr std::chrono::seconds kDefaultDeadline{60};
constexpr std::uint32_t kMostThreads = 1024;

struct PlanOptions {
  std::string input;
  std::string plan_output;
  std::string placements_output;
  std::optional<std::uint32_t> step;
  std::uint64_t capacity_bytes = planner::kUnlimited;
  std::uint64_t alignment_bytes = 1;
  std::optional<double> deadline_seconds;  // nullopt: the search ends by itself, or at the default
  std::uint64_t seed = 1;
  unsigned threads = 0;
  bool salvage = false;
  bool force = false;
  bool json = false;
  bool front = false;
};

std::optional<std::chrono::nanoseconds> TimeLimit(const PlanOptions& options) {
  if (!options.deadline_seconds) return std::nullopt;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Seconds(*options.deadline_seconds));
}

std::optional<std::chrono::steady_clock::duration> DefaultDeadline(const PlanOptions& options) {
  if (options.deadline_seconds) return std::nullopt;
  return kDefaultDeadline;
}

void CheckOutputs(const PlanOptions& options) {
  CheckOutputFile(options.plan_output, options.input, options.force);
  CheckOutputFile(options.placements_output, options.input, options.force);
  const auto name_of = [](const std::string& path) { return fs::absolute(path).lexically_normal(); };
  if (!options.plan_output.empty() && !options.placements_output.empty() &&
      name_of(options.plan_output) == name_of(options.placements_output)) {
    throw Failure(ExitCode::kUsage, options.plan_output + ": cannot be both the plan and the placements");
  }
}

PlanSearch SearchOf(const PlanOptions& options, std::stop_token stop) {
  PlanSearch search;
  search.seed = options.seed;
  search.threads = options.threads;
  search.time_limit = TimeLimit(options);
  search.stop = std::move(stop);
  return search;
}

// Pages where there is a plan in pages, otherwise one run of bytes for each request.
std::vector<planner::Slot> SlotsOf(const PlanAnswer& answer) {
  if (answer.pages) return answer.pages->slots;
  std::vector<planner::Slot> slots;
  for (const planner::Bytes offset : answer.solution.placement.offsets) {
    slots.push_back({planner::Slot::Kind::kRun, offset, {}});
  }
  return slots;
}

void WriteOutputs(const PlanningInput& input, const PlanOptions& options, const PlanAnswer& answer) {
  if (!options.placements_output.empty()) {
    ThrowIf(planner::WritePlacementCsv(options.placements_output, input.problem, input.ids, answer.solution.placement,
                                       options.force));
  }
  if (!options.plan_output.empty()) WritePlan(options.plan_output, input, SlotsOf(answer), options.force);
}

// The plans to choose from instead of one, measured against what an allocator without a plan holds.
ExitCode RunFront(const PlanningInput& input, const PlanOptions& options) {
  if (const std::optional<std::string> malformed = planner::FindMalformed(input.problem)) {
    throw Failure(ExitCode::kBadInput, options.input + ": " + *malformed);
  }
  planner::PageProblem problem;
  problem.problem = input.problem;
  problem.incumbent = planner::PlaceOnline(input.problem);
  FrontAnswer answer;
  answer.online = planner::MeritsOf(problem, problem.incumbent);
  problem.held_pages = answer.online.pages;
  answer.online.handles = 0;  // they are there
  planner::PlanFrontOptions search;
  search.time_limit = TimeLimit(options);
  search.seed = options.seed;
  search.threads = options.threads;
  const Interrupt interrupt(DefaultDeadline(options));
  search.stop = interrupt.token();
  const auto start = std::chrono::steady_clock::now();
  answer.front = planner::SearchPlanFront(problem, search);
  answer.seconds = Seconds(std::chrono::steady_clock::now() - start).count();
  if (!answer.front.error.empty()) throw Failure(ExitCode::kBadInput, options.input + ": " + answer.front.error);
  const std::uint64_t capacity_pages = options.capacity_bytes / planner::kPageBytes;
  answer.chosen = planner::ChooseByPressure(answer.front, capacity_pages);
  const std::string report =
      options.json ? FrontJson(input, answer, options.input) : FrontText(input, answer, options.input);
  std::fputs(report.c_str(), stdout);
  if (answer.chosen->merits.pages > capacity_pages) {
    throw Failure(ExitCode::kInfeasible,
                  Format("%s: does not fit %llu pages: %llu are the fewest found; nothing was written",
                         options.input.c_str(), static_cast<unsigned long long>(capacity_pages),
                         static_cast<unsigned long long>(answer.chosen->merits.pages)));
  }
  if (!options.plan_output.empty()) WritePlan(options.plan_output, input, answer.chosen->slots, options.force);
  return ExitCode::kOk;
}

ExitCode Run(const PlanOptions& options) {
  CheckOutputs(options);
  PlanningInput input =
      LoadPlanningInput(options.input, options.step, options.salvage ? TraceEnd::kMayBeCutOff : TraceEnd::kMustBeWhole);
  input.problem.capacity_bytes = options.capacity_bytes;
  input.problem.alignment_bytes = options.alignment_bytes;

  if (options.front) return RunFront(input, options);
  // A deadline that the user gives is spent to its end. Without one the search ends where it does not improve any more,
  // and at the default.
  PlanAnswer answer;
  {
    const Interrupt interrupt(DefaultDeadline(options));
    answer = SearchPlan(input, SearchOf(options, interrupt.token()));
    answer.interrupted = interrupt.by_user();
  }
  if (answer.solution.status == planner::Solution::Status::kMalformed) {
    throw Failure(ExitCode::kBadInput, options.input + ": " + answer.solution.error);
  }
  if (answer.violation) throw Failure(ExitCode::kInternal, "the planner made an invalid plan: " + *answer.violation);
  const std::string report = options.json ? PlanJson(input, answer, options.input, options.capacity_bytes)
                                          : PlanText(input, answer, options.input);
  std::fputs(report.c_str(), stdout);
  if (answer.solution.status == planner::Solution::Status::kInfeasible) {
    throw Failure(ExitCode::kInfeasible,
                  Format("%s: does not fit %llu bytes (%s): %llu (%s) is the best found%s; nothing was written",
                         options.input.c_str(), static_cast<unsigned long long>(options.capacity_bytes),
                         HumanBytes(options.capacity_bytes).c_str(),
                         static_cast<unsigned long long>(answer.solution.placement.height_bytes),
                         HumanBytes(answer.solution.placement.height_bytes).c_str(),
                         answer.solution.proven ? ", and none can fit" : ""));
  }
  WriteOutputs(input, options, answer);
  return ExitCode::kOk;
}

std::string CheckSeconds(const std::string& text) {
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  return end != text.c_str() && *end == '\0' && seconds >= 0 && seconds < 1e9 ? std::string()
                                                                              : text + " is no number of seconds";
}

std::string CheckPowerOfTwo(const std::string& text) {
  const unsigned long long value = std::strtoull(text.c_str(), nullptr, 10);
  return value != 0 && (value & (value - 1)) == 0 ? std::string() : text + " is no power of two";
}

}  // namespace

void AddPlanVerb(CLI::App& app, int* exit_code) {
  CLI::App* verb =
      app.add_subcommand("plan", "Place the requests of a trace or a CSV file, and compare with the bound");
  const auto options = std::make_shared<PlanOptions>();
  verb->add_option("FILE", options->input,
                   "A trace, or a CSV with the columns op,id,bytes,stream,step (op: a, allocated, or f, freed) or "
                   "id,lower,upper,size; each may be gzipped; - reads standard input")
      ->required()
      ->type_name("");
  verb->add_option("--step", options->step, "The training step to plan (default: the last whole one)")
      ->check(WholeNumber())
      ->type_name("K");
  AddSizeOption(*verb, "--capacity", options->capacity_bytes, "Exit code 4 if the requests do not fit into it");
  AddSizeOption(*verb, "--alignment", options->alignment_bytes, "Every offset is a multiple of it (default 1)")
      ->check(CLI::Validator(CheckPowerOfTwo, "", "power of two"));
  verb->add_option("--deadline", options->deadline_seconds,
                   "Search for S seconds, or until Ctrl-C, and take the best plan so far (default: until it does not "
                   "improve any "
                   "more, 60 at most)")
      ->check(CLI::Validator(CheckSeconds, "", "seconds"))
      ->type_name("S");
  verb->add_option("--seed", options->seed,
                   "Same seed, input and threads, same plan, where the search was not stopped (default 1)")
      ->check(WholeNumber())
      ->type_name("N");
  verb->add_option("--threads", options->threads, "0: as many as the machine has (default)")
      ->check(WholeNumber(kMostThreads))
      ->type_name("N");
  verb->add_option("-o,--output", options->plan_output, "Write the plan")->type_name("PLAN");
  CLI::Option* const placements =
      verb->add_option("--placements", options->placements_output, "Write id,lower,upper,size,offset")
          ->type_name("CSV");
  verb->add_flag(
          "--front", options->front,
          "Offer a choice of plans that trade pages for handles to map, waits between streams, moves and room to grow, "
          "instead of the lowest one; --output writes the one with the fewest handles that --capacity allows")
      ->excludes(placements);
  verb->add_flag("--salvage", options->salvage, "Read a trace whose end is cut off as far as it is whole");
  verb->add_flag("--force", options->force, "Overwrite files that are there already");
  verb->add_flag("--json", options->json, "Print JSON");
  verb->footer("Example: stalloc plan run.trace --json --placements placements.csv");
  verb->callback([options, exit_code] { *exit_code = static_cast<int>(Run(*options)); });
}

}  // namespace stalloc::tools
