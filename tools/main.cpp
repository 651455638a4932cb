// stalloc: the command. Parses the command line, runs one verb and turns what happened into an exit code.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "tools/failure.h"
#include "tools/verbs.h"

namespace {

using stalloc::tools::ExitCode;

int EndWith(ExitCode code, const char* message) {
  std::fprintf(stderr, "stalloc: error: %s\n", message);
  return static_cast<int>(code);
}

// Takes "--" and what follows it off a `run` or `doctor` command line: the options of that command are none of ours.
std::vector<std::string> TakeBehindDashes(int* argc, char** argv) {
  if (*argc < 2 || (std::strcmp(argv[1], "run") != 0 && std::strcmp(argv[1], "doctor") != 0)) return {};
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
  stalloc::tools::AddPlanVerb(app, &exit_code);
  stalloc::tools::AddShowVerb(app, &exit_code);
  stalloc::tools::AddReplayVerb(app, &exit_code);
  stalloc::tools::AddDoctorVerb(app, behind_dashes, &exit_code);
  const std::string verb = argc < 2 || argv[1][0] == '-' ? "" : argv[1];
  if (!verb.empty() && app.get_subcommands([&](const CLI::App* known) { return known->check_name(verb); }).empty())
    return EndWith(ExitCode::kUsage, ("there is no command " + verb + "; stalloc --help lists them").c_str());
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    const std::string help = "stalloc " + (verb.empty() ? "" : verb + " ") + "--help";
    return EndWith(ExitCode::kUsage, (std::string(error.what()) + "; " + help + " says more").c_str());
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
