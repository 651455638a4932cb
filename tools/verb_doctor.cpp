// stalloc doctor: would requests be served on this machine, for this command? If not, why.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/doctor.h"
#include "tools/preload.h"
#include "tools/verbs.h"

namespace stalloc::tools {
namespace {

namespace fs = std::filesystem;

struct DoctorOptions {
  std::string library;
  std::string probe;
  bool json = false;
};

const char* LevelName(Finding::Level level) {
  switch (level) {
    case Finding::Level::kOk:
      return "ok";
    case Finding::Level::kNote:
      return "note";
    case Finding::Level::kProblem:
      break;
  }
  return "problem";
}

void Print(const Findings& findings, bool served) {
  for (const Finding& finding : findings) {
    std::printf("%-8s %-17s %s\n", LevelName(finding.level), finding.subject.c_str(), finding.text.c_str());
    if (!finding.next.empty()) std::printf("%-26s -> %s\n", "", finding.next.c_str());
  }
  std::printf("\n%s\n", served ? "Requests for CUDA memory, if there are any, would be served."
                               : "Requests would not be served, or not all: see above.");
}

void PrintJson(const Findings& findings, bool served) {
  nlohmann::ordered_json json;
  json["served"] = served;
  json["findings"] = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    nlohmann::ordered_json entry = {
        {"level", LevelName(finding.level)}, {"subject", finding.subject}, {"text", finding.text}};
    if (!finding.next.empty()) entry["next"] = finding.next;
    json["findings"].push_back(std::move(entry));
  }
  std::printf("%s\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

bool IsPython(const std::string& command) { return fs::path(command).filename().string().starts_with("python"); }

ExitCode Run(const DoctorOptions& options, const std::vector<std::string>& command) {
  const fs::path library = options.library.empty() ? FindLibrary() : fs::absolute(options.library);
  Findings findings;
  const auto add = [&](const Findings& more) { findings.insert(findings.end(), more.begin(), more.end()); };
  add(ExamineLibrary(library));
  add(ExamineDriver());
  const bool driver = findings.back().level == Finding::Level::kOk;
  if (driver) add(ExamineRoutes(library));
  add(ExamineSettings());
  // What frameworks would do says nothing of a command that is no Python.
  if (command.empty() || IsPython(command.front()))
    add(ExamineFrameworks(command.empty() ? "python3" : command.front(), library));
  if (!command.empty()) add(ExamineCommand(command.front()));

  bool served = true;
  for (const Finding& finding : findings) served = served && finding.level != Finding::Level::kProblem;
  options.json ? PrintJson(findings, served) : Print(findings, served);
  return served ? ExitCode::kOk : ExitCode::kInfeasible;
}

}  // namespace

void AddDoctorVerb(CLI::App& app, const std::vector<std::string>& behind_dashes, int* exit_code) {
  CLI::App* verb = app.add_subcommand("doctor", "Say whether requests would be served here: doctor [OPTIONS] [-- CMD]");
  verb->prefix_command();
  const auto options = std::make_shared<DoctorOptions>();
  verb->add_option("--library", options->library, "The libstalloc.so to examine, instead of this command's own")
      ->type_name("FILE");
  verb->add_option("--probe", options->probe)->group("");  // this command, called by itself
  verb->add_flag("--json", options->json, "Print JSON");
  verb->footer("Exit code 0 if they would be, 4 if not.\nExample: stalloc doctor -- python train.py");
  verb->callback([verb, options, behind_dashes, exit_code] {
    if (!options->probe.empty()) {
      *exit_code = RunProbe(options->probe);
      return;
    }
    *exit_code = static_cast<int>(Run(*options, CommandOf(*verb, behind_dashes)));
  });
}

}  // namespace stalloc::tools
