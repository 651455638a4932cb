// stalloc run: a command with libstalloc.so preloaded, and with the settings that the options name.
//
// The options are the rows of the runtime's table of settings: --memory-limit is STALLOC_MEMORY_LIMIT, and so on. With
// --simulated the command runs on a simulated device, and so on a machine without a GPU.
#include <elf.h>

#include <cctype>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "planner/plan_file.h"
#include "planner/trace_file.h"
#include "planner/whole_file.h"
#include "runtime/base/byte_size.h"
#include "runtime/base/settings.h"
#include "runtime/service/statistics.h"
#include "tools/child_process.h"
#include "tools/environment.h"
#include "tools/load.h"
#include "tools/preload.h"
#include "tools/simulated.h"
#include "tools/terminal.h"
#include "tools/verbs.h"

namespace stalloc::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "STALLOC_";

struct SettingOption {
  runtime::SettingDescription setting;
  std::string value;  // empty: not given
};

struct RunOptions {
  std::deque<SettingOption> settings;  // CLI11 keeps the addresses of the values
  std::string library;
  bool simulated = false;
  SimulatedMachine machine;
  bool force = false;
};

// STALLOC_MEMORY_LIMIT -> --memory-limit
std::string OptionName(const std::string& setting_name) {
  std::string name = "--" + setting_name.substr(std::char_traits<char>::length(kPrefix));
  for (char& c : name) c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

// A file or a folder is meant relative to here, wherever the command goes.
std::string AbsoluteIfPath(const SettingOption& option) {
  const std::string& form = option.setting.form;
  const bool path = form == "FILE" || (form.ends_with("DIRECTORY") && option.value.find('/') != std::string::npos);
  return path ? fs::absolute(option.value).string() : option.value;
}

// Refuses what the library would warn about and ignore: here the user is present.
void CheckSetting(const SettingOption& option) {
  const std::string entry = std::string(option.setting.name) + "=" + option.value;
  const char* const block[] = {entry.c_str(), nullptr};
  std::vector<std::string> warnings;
  runtime::LoadSettings(block, &warnings);
  const std::string sizes =
      option.setting.form.starts_with("SIZE") ? std::string(" (a size is ") + runtime::kByteSizeGrammar + ")" : "";
  if (!warnings.empty())
    throw Failure(ExitCode::kUsage, OptionName(option.setting.name) + "=" + option.value + ": it must be " +
                                        option.setting.form + sizes + "; stalloc run --help says more");
}

bool WasWritten(const std::string& file, std::span<const char> magic) {
  std::error_code ignored;
  return !file.empty() && file.find('%') == std::string::npos && fs::file_size(file, ignored) > 0 && !ignored &&
         !planner::HoldsSomethingElse(file, magic);
}

// A file that could not be written in the end is refused before hours are spent on it. What names several (%p) is the
// library's to look at.
void CheckFile(const SettingOption& option, bool force) {
  if (option.value.find('%') != std::string::npos) return;
  const std::string name = OptionName(option.setting.name);
  if (name == "--stats") ThrowIf(runtime::FindStatisticsObstacle(option.value));
  if (name == "--trace") {
    ThrowIf(planner::FindTraceObstacle(option.value));
    if (!force && WasWritten(option.value, planner::kTraceBlockMagic))
      throw Failure(ExitCode::kInternal, option.value + ": exists already; --force overwrites it");
  }
  if (name == "--plan") ThrowIf(planner::FindObstacle(option.value, planner::kPlanFileMagic));
}

// What the dynamic linker would pass over with a line of its own, and run the command without.
void CheckLibrary(const fs::path& library) {
  if (!fs::is_regular_file(library)) throw Failure(ExitCode::kInternal, library.string() + ": no such library");
  std::ifstream file(library, std::ios::binary);
  char head[SELFMAG] = {};
  file.read(head, sizeof head);
  if (!file || std::memcmp(head, ELFMAG, SELFMAG) != 0)
    throw Failure(ExitCode::kBadInput, library.string() + ": is no library");
}

std::vector<std::string> ChildEnvironment(const RunOptions& options) {
  std::vector<std::string> environment = CurrentEnvironment();
  for (const SettingOption& option : options.settings) {
    if (option.value.empty()) continue;
    CheckSetting(option);
    CheckFile(option, options.force);
    SetVariable(&environment, option.setting.name, AbsoluteIfPath(option));
  }
  const fs::path library = options.library.empty() ? FindLibrary() : fs::absolute(options.library);
  CheckLibrary(library);
  if (options.simulated) {
    CheckSimulatedMachine(options.machine);
    SimulateIn(FindSimulatedParts(), options.machine, &environment);
  }
  SetVariable(&environment, "LD_PRELOAD", PrependPreload(library, VariableIn(environment, "LD_PRELOAD")));
  return environment;
}

// As the command has it: by the option, or else by the environment.
std::string ValueOf(const RunOptions& options, const std::string& setting_name) {
  for (const SettingOption& option : options.settings) {
    if (option.setting.name == kPrefix + setting_name && !option.value.empty()) return option.value;
  }
  return Variable((kPrefix + setting_name).c_str());
}

// One line that says what to do with what this run has left behind.
void PrintNextCommand(const RunOptions& options) {
  if (ValueOf(options, "SUMMARY") == "0" || !SomebodyWatches()) return;
  const std::string trace = ValueOf(options, "TRACE");
  const std::string plan = ValueOf(options, "PLAN");
  if (WasWritten(trace, planner::kTraceBlockMagic)) {
    std::fprintf(stderr, "stalloc: next: stalloc replay %s   (the same requests under other allocators)\n",
                 trace.c_str());
  } else if (WasWritten(plan, planner::kPlanFileMagic)) {
    std::fprintf(stderr, "stalloc: next: the same command again, served from %s from its start\n", plan.c_str());
  } else if (trace.empty() && plan.empty()) {
    std::fprintf(stderr,
                 "stalloc: next: --trace=run.trace records the requests, for stalloc show, plan and replay; where no "
                 "summary stands above, stalloc doctor says why\n");
  }
}

int Run(const RunOptions& options, const std::vector<std::string>& command) {
  if (command.empty()) throw Failure(ExitCode::kUsage, "run needs a command: stalloc run [options] -- CMD [ARGS...]");
  const ChildEnd end = RunChild(command, ChildEnvironment(options));
  if (end.exit_code == 0) PrintNextCommand(options);
  return EndAs(end);
}

}  // namespace

void AddRunVerb(CLI::App& app, const std::vector<std::string>& behind_dashes, int* exit_code) {
  CLI::App* verb = app.add_subcommand("run", "Run a command with libstalloc.so preloaded: run [OPTIONS] -- CMD [ARGS]");
  verb->prefix_command();
  const auto options = std::make_shared<RunOptions>();
  for (const runtime::SettingDescription& setting : runtime::DescribeSettings()) {
    SettingOption& option = options->settings.emplace_back(SettingOption{setting, {}});
    verb->add_option(OptionName(setting.name), option.value, std::string(setting.sentence) + " [" + setting.name + "]")
        ->type_name(setting.form);
  }
  verb->add_option("--library", options->library, "The libstalloc.so to preload, instead of this command's own")
      ->type_name("FILE");
  verb->add_flag("--simulated", options->simulated,
                 "Run without a GPU, on a simulated device: nothing is computed, the requests for memory are real");
  const std::vector<CLI::Option*> of_the_machine = AddSimulatedOptions(*verb, options->machine);
  for (CLI::Option* option : of_the_machine) option->group("With --simulated");
  verb->add_flag("--force", options->force, "Overwrite a trace that is there already");
  verb->footer(
      "The command's exit code becomes this command's; what LD_PRELOAD holds already stays, behind libstalloc.so.\n"
      "Example: stalloc run --trace=run.trace --memory-limit=20GiB -- python train.py\n"
      "         stalloc run --simulated --device=h100 --trace=run.trace -- python train.py");
  verb->callback([verb, options, of_the_machine, behind_dashes, exit_code] {
    for (const CLI::Option* option : of_the_machine)
      if (option->count() != 0 && !options->simulated)
        throw Failure(ExitCode::kUsage, option->get_name() + " needs --simulated");
    *exit_code = Run(*options, CommandOf(*verb, behind_dashes));
  });
}

}  // namespace stalloc::tools
