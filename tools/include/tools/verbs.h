// The verbs of the `stalloc` command. Each is one file, verb_<name>.cpp: it declares its options on a subcommand, and
// runs when the command line names it. How to add one: write the file, declare its function here, call it in main.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tools/failure.h"
#include "tools/options.h"

namespace stalloc::tools {

// Each adds its subcommand to `app`. When the subcommand is parsed its callback runs the verb and leaves the exit code
// in *exit_code; a Failure may leave the callback instead.
// `behind_dashes` is what follows the first "--" of the command line: the command, or its rest.
void AddRunVerb(CLI::App& app, const std::vector<std::string>& behind_dashes, int* exit_code);
void AddFitVerb(CLI::App& app, const std::vector<std::string>& behind_dashes, int* exit_code);
void AddPlanVerb(CLI::App& app, int* exit_code);
void AddShowVerb(CLI::App& app, int* exit_code);
void AddReplayVerb(CLI::App& app, int* exit_code);
void AddReportVerb(CLI::App& app, int* exit_code);
void AddImportVerb(CLI::App& app, int* exit_code);
void AddExportVerb(CLI::App& app, int* exit_code);
void AddDoctorVerb(CLI::App& app, const std::vector<std::string>& behind_dashes, int* exit_code);

// The command that `run`, `fit` or `doctor` is about: what their own options left over, and what is behind the dashes.
inline std::vector<std::string> CommandOf(const CLI::App& verb, const std::vector<std::string>& behind_dashes) {
  std::vector<std::string> command = verb.remaining();
  // What the command line does not know is taken for the command; no command begins with a dash.
  if (!command.empty() && command.front().starts_with('-'))
    throw Failure(ExitCode::kUsage, verb.get_name() + " has no option " + command.front() +
                                        DidYouMean(verb, command.front()) + "; stalloc " + verb.get_name() +
                                        " --help lists them");
  command.insert(command.end(), behind_dashes.begin(), behind_dashes.end());
  return command;
}

}  // namespace stalloc::tools
