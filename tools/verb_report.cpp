// stalloc report: a trace as one HTML file with pictures.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>

#include "planner/whole_file.h"
#include "tools/load.h"
#include "tools/options.h"
#include "tools/output_file.h"
#include "tools/report/data.h"
#include "tools/report/page.h"
#include "tools/text.h"
#include "tools/verbs.h"

namespace stalloc::tools {
namespace {

struct ReportOptions {
  std::string input;
  std::string output;
  StallocReplayOptions replay;
  double plan_seconds = 10;
  bool salvage = false;
  bool force = false;
};

ExitCode Run(const ReportOptions& options) {
  report::CheckPage();
  CheckOutputFile(options.output, options.input, options.force);
  LoadedFile file = Load(options.input, options.salvage ? TraceEnd::kMayBeCutOff : TraceEnd::kMustBeWhole);
  const auto* const trace = std::get_if<planner::Trace>(&file.content);
  if (trace == nullptr)
    throw Failure(ExitCode::kBadInput, options.input + ": holds " + file.WithArticle() + "; a trace is needed");
  report::DataOptions data;
  data.file = options.input;
  data.replay = options.replay;
  data.plan_time_limit =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(options.plan_seconds));
  std::string page;
  try {
    page = report::Page(report::DataOf(file.format, *trace, data));
  } catch (const Failure& failure) {
    const std::string what = failure.what();
    throw Failure(failure.code(), what.starts_with(options.input) ? what : options.input + ": " + what);
  }
  ThrowIf(planner::WriteWholeFile(options.output, std::as_bytes(std::span(page)), options.force));
  std::fprintf(stderr, "stalloc: %s: %s\n", options.output.c_str(), HumanBytes(page.size()).c_str());
  return ExitCode::kOk;
}

}  // namespace

void AddReportVerb(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand("report", "Write a trace as one HTML file: where blocks lay, curves, call sites");
  const auto options = std::make_shared<ReportOptions>();
  verb->add_option("FILE", options->input, "A trace or a CSV of events, which may be gzipped; - reads standard input")
      ->required()
      ->type_name("");
  verb->add_option("-o,--output", options->output, "The HTML file; it opens offline, in any browser of 2023 or later")
      ->required()
      ->type_name("HTML");
  AddSizeOption(*verb, "--memory", options->replay.device_memory_bytes,
                "The simulated device's memory (default 140GiB)");
  verb->add_option("--plan-deadline", options->plan_seconds, "Search the plan for S seconds at most (default 10)")
      ->check(CLI::Range(0.0, 86400.0).description(""))
      ->type_name("S");
  verb->add_flag("--salvage", options->salvage, "Read a trace whose end is cut off as far as it is whole");
  verb->add_flag("--force", options->force, "Overwrite a file that is there already");
  verb->footer("Example: stalloc report run.trace -o report.html");
  verb->callback([options, exit_code] { *exit_code = static_cast<int>(Run(*options)); });
}

}  // namespace stalloc::tools
