// stalloc fit: how much memory a command would hold on a GPU that need not be there, under each allocator.
#include <cstdio>
#include <memory>

#include "tools/child_process.h"
#include "tools/fit.h"
#include "tools/verbs.h"

namespace stalloc::tools {
namespace {

constexpr std::uint32_t kDefaultSteps = 40;

struct Options {
  FitOptions fit;
  std::string output;
  bool json = false;
};

int Run(Options* options, const std::vector<std::string>& command) {
  if (command.empty()) throw Failure(ExitCode::kUsage, "fit needs a command: stalloc fit [options] -- CMD [ARGS...]");
  options->fit.machine.memory_bytes = CheckSimulatedMachine(options->fit.machine);
  options->fit.output = options->output;
  int signal = 0;
  const std::optional<FitResult> result = Fit(options->fit, command, &signal);
  if (!result) return EndAs({128 + signal, signal});
  if (options->json) {
    std::printf("%s\n", FitJson(*result).dump(2).c_str());
  } else {
    PrintFitText(*result);
  }
  // Judged by stalloc's first run, or, where only others were asked for, by the first of them.
  const FitRow* judged = &result->rows.front();
  for (const FitRow& row : result->rows)
    if (row.plenty.allocator == "stalloc" && row.plenty.number == 1) judged = &row;
  return static_cast<int>(judged->Fits(result->memory_bytes).value_or(true) ? ExitCode::kOk : ExitCode::kInfeasible);
}

}  // namespace

void AddFitVerb(CLI::App& app, const std::vector<std::string>& behind_dashes, int* exit_code) {
  CLI::App* verb = app.add_subcommand(
      "fit",
      "Say what a command would hold on a GPU that need not be there, under each allocator: fit [OPTIONS] -- CMD");
  verb->prefix_command();
  const auto options = std::make_shared<Options>();
  FitOptions& fit = options->fit;
  fit.machine.steps = kDefaultSteps;
  for (CLI::Option* option : AddSimulatedOptions(*verb, fit.machine)) {
    if (option->get_name() == "--steps")
      option->description("End the program after N training steps (default 40); 0: when it ends by itself");
    if (option->get_name() == "--memory")
      option->description(
          "The memory that it is to fit into, of each device (default: the card's, if --device names one)");
  }
  std::vector<std::string> names;
  for (const FitAllocator& allocator : FitAllocators()) names.push_back(allocator.name);
  verb->add_option("--only", fit.only, "One or more of: " + CLI::detail::join(names, ", ") + " (default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember(names).description(""))
      ->type_name("NAME,...");
  verb->add_option("--jobs", fit.jobs, "How many runs are made at once (default: by the number of processors)")
      ->check(CLI::Range(1, 64).description(""))
      ->type_name("N");
  verb->add_option("--output", options->output, "Keep what each run prints and reports in this directory")
      ->type_name("DIRECTORY");
  verb->add_flag("--verbose", fit.verbose, "Show the end of what each run prints");
  verb->add_flag("--json", options->json, "Print JSON");
  verb->footer(
      "The command is run once for each allocator, and stalloc's a second time with the plan of the first, on a\n"
      "simulated device: no GPU is needed and nothing is computed. What needs more than --memory is run once more on "
      "a\n"
      "device of that size, to see whether it survives, and where it fails if not.\n"
      "Exit code: 0 if it fits with stalloc, 4 if not, 3 if the command fails by itself or does not use CUDA.\n"
      "Example: stalloc fit --memory=24GiB -- python train.py\n"
      "         stalloc fit --device=h100 --world-size=1024 -- python train.py");
  verb->callback(
      [verb, options, behind_dashes, exit_code] { *exit_code = Run(options.get(), CommandOf(*verb, behind_dashes)); });
}

}  // namespace stalloc::tools
