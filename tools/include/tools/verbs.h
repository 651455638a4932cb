// The verbs of the `stalloc` command. Each is one file, verb_<name>.cpp: it declares its options on a subcommand, and
// runs when the command line names it. How to add one: write the file, declare its function here, call it in main.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tools/failure.h"

namespace stalloc::tools {

// Each adds its subcommand to `app`. When the subcommand is parsed its callback runs the verb and leaves the exit code
// in *exit_code; a Failure may leave the callback instead.
// `behind_dashes` is what follows the first "--" of the command line: the command, or its rest.
void AddRunVerb(CLI::App& app, const std::vector<std::string>& behind_dashes, int* exit_code);
void AddPlanVerb(CLI::App& app, int* exit_code);
void AddShowVerb(CLI::App& app, int* exit_code);
void AddReplayVerb(CLI::App& app, int* exit_code);
void AddDoctorVerb(CLI::App& app, const std::vector<std::string>& behind_dashes, int* exit_code);

}  // namespace stalloc::tools
