// stalloc: the command. Parses the command line, runs one verb and turns what happened into an exit code.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iterator>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "tools/failure.h"
#include "tools/options.h"
#include "tools/verbs.h"

namespace {

using stalloc::tools::DidYouMean;
using stalloc::tools::ExitCode;

int EndWith(ExitCode code, const char* message) {
  std::fprintf(stderr, "stalloc: error: %s\n", message);
  return static_cast<int>(code);
}

// What most people come for, without the manual.
constexpr const char* kFirstUses =
    "stalloc: GPU memory for unmodified CUDA programs, planned from the pattern that training repeats.\n"
    "\n"
    "  stalloc doctor -- python train.py               would it be served here? If not, why\n"
    "  stalloc run -- python train.py                  runs it with stalloc\n"
    "  stalloc run --trace=run.trace -- python train.py  also records every request\n"
    "  stalloc fit --memory=24GiB -- python train.py   how much memory it would take: no GPU needed\n"
    "  stalloc show run.trace                          what was recorded\n"
    "  stalloc replay run.trace                        the same requests under stalloc and other allocators\n"
    "\n"
    "stalloc --help lists all commands, stalloc COMMAND --help its options; man stalloc has the settings.\n";

// What was not expected, with the option or the command that may have been meant.
std::string WhatIsWrong(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  std::string guess;
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    for (int i = 1; i < argc && guess.empty(); ++i) {
      const std::string word = argv[i];
      if (!word.starts_with("--") || app.get_option_no_throw(word.substr(0, word.find('='))) != nullptr) continue;
      guess = DidYouMean(app, word);
    }
  }
  return error.what() + guess + "; stalloc " + (app.get_parent() != nullptr ? app.get_name() + " " : "") +
         "--help says more";
}

// Takes "--" and what follows it off a `run`, `fit` or `doctor` command line: the options of that command are none of
// ours.
std::vector<std::string> TakeBehindDashes(int* argc, char** argv) {
  constexpr std::string_view kOfCommands[] = {"run", "fit", "doctor"};
  if (*argc < 2 || std::find(std::begin(kOfCommands), std::end(kOfCommands), argv[1]) == std::end(kOfCommands))
    return {};
  char** const end = argv + *argc;
  char** const dashes = std::find_if(argv + 2, end, [](const char* word) { return std::strcmp(word, "--") == 0; });
  if (dashes == end) return {};
  *argc = static_cast<int>(dashes - argv);
  return {dashes + 1, end};
}

int Main(int argc, char** argv) {
  const std::vector<std::string> behind_dashes = TakeBehindDashes(&argc, argv);
  int exit_code = static_cast<int>(ExitCode::kOk);
  CLI::App app{"stalloc: GPU memory for unmodified CUDA programs, planned from the pattern that training repeats."};
  app.name("stalloc");
  app.set_version_flag("--version", "stalloc " STALLOC_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Example: stalloc run -- python train.py\n"
      "Exit codes: 0 ok, 1 internal or I/O error, 2 usage, 3 bad or truncated input, 4 infeasible;\n"
      "`stalloc run` ends as its command ended.");
  stalloc::tools::AddRunVerb(app, behind_dashes, &exit_code);
  stalloc::tools::AddFitVerb(app, behind_dashes, &exit_code);
  stalloc::tools::AddPlanVerb(app, &exit_code);
  stalloc::tools::AddShowVerb(app, &exit_code);
  stalloc::tools::AddReplayVerb(app, &exit_code);
  stalloc::tools::AddReportVerb(app, &exit_code);
  stalloc::tools::AddImportVerb(app, &exit_code);
  stalloc::tools::AddExportVerb(app, &exit_code);
  stalloc::tools::AddDoctorVerb(app, behind_dashes, &exit_code);
  if (argc < 2) {
    std::fputs(kFirstUses, stderr);
    return static_cast<int>(ExitCode::kUsage);
  }
  const std::string word = argv[1];
  const auto verbs = app.get_subcommands([&](const CLI::App* known) { return known->check_name(word); });
  const CLI::App* const verb = verbs.empty() ? nullptr : verbs.front();
  if (verb == nullptr && app.get_option_no_throw(word) == nullptr) {
    const std::string kind = word.starts_with('-') ? "option " : "command ";
    return EndWith(ExitCode::kUsage,
                   ("there is no " + kind + word + DidYouMean(app, word) + "; stalloc --help lists them").c_str());
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    return EndWith(ExitCode::kUsage, WhatIsWrong(verb == nullptr ? app : *verb, error, argc, argv).c_str());
  }
  if (std::fflush(stdout) != 0) return EndWith(ExitCode::kInternal, "standard output cannot be written");
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Main(argc, argv);
  } catch (const stalloc::tools::Failure& failure) {
    return EndWith(failure.code(), failure.what());
  } catch (const std::bad_alloc&) {
    return EndWith(ExitCode::kInternal, "out of memory");
  } catch (const std::exception& error) {
    return EndWith(ExitCode::kInternal, error.what());
  }
}
