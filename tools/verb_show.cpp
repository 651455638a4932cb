// stalloc show: what a trace, a plan, statistics or a table of lifetimes hold.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/load.h"
#include "tools/options.h"
#include "tools/summary.h"
#include "tools/terminal.h"
#include "tools/verbs.h"

namespace stalloc::tools {
namespace {

struct ShowOptions {
  std::string input;
  SummaryOptions summary;
  bool salvage = false;
  bool json = false;
};

constexpr std::size_t kTableRows = 20;  // for people; JSON has them all

ExitCode Run(const ShowOptions& options) {
  const LoadedFile file = Load(options.input, options.salvage ? TraceEnd::kMayBeCutOff : TraceEnd::kMustBeWhole);
  nlohmann::ordered_json summary;
  summary["file"] = options.input;
  summary["format"] = file.format;
  std::visit([&](const auto& content) { Summarise(content, options.summary, &summary); }, file.content);
  if (options.json) {
    std::printf("%s\n", summary.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    const std::size_t rows = options.summary.top == 0 ? 0 : std::max(kTableRows, options.summary.top);
    std::fputs(SummaryText(summary, {OutputColumns(), rows}).c_str(), stdout);
  }
  return ExitCode::kOk;
}

}  // namespace

void AddShowVerb(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand("show", "Print what a trace, a plan, a statistics file or a CSV file holds");
  const auto options = std::make_shared<ShowOptions>();
  verb->add_option(
          "FILE", options->input,
          "A trace, a plan, statistics, or a CSV of events or lifetimes; all but plans may be gzipped; - reads "
          "standard input")
      ->required()
      ->type_name("");
  verb->add_option("--top", options->summary.top,
                   "List the N call sites with most bytes at the peak (default 10; 0: all, and every step)")
      ->check(WholeNumber())
      ->type_name("N");
  verb->add_flag("--salvage", options->salvage, "Read a trace whose end is cut off as far as it is whole");
  verb->add_flag("--json", options->json, "Print JSON");
  verb->footer("Example: stalloc show run.trace --top 20");
  verb->callback([options, exit_code] { *exit_code = static_cast<int>(Run(*options)); });
}

}  // namespace stalloc::tools
