// stalloc show: what a trace, a plan, statistics or a table of lifetimes hold.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/load.h"
#include "tools/summary.h"
#include "tools/verbs.h"

namespace stalloc::tools {
namespace {

struct ShowOptions {
  std::string input;
  bool salvage = false;
  bool json = false;
};

ExitCode Run(const ShowOptions& options) {
  const LoadedFile file = Load(options.input, options.salvage ? TraceEnd::kMayBeCutOff : TraceEnd::kMustBeWhole);
  nlohmann::ordered_json summary;
  summary["file"] = options.input;
  summary["format"] = file.format;
  std::visit([&](const auto& content) { Summarise(content, &summary); }, file.content);
  if (options.json) {
    std::printf("%s\n", summary.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    std::fputs(SummaryText(summary).c_str(), stdout);
  }
  return ExitCode::kOk;
}

}  // namespace

void AddShowVerb(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand("show", "Print what a trace, a plan, a statistics file or a CSV file holds");
  const auto options = std::make_shared<ShowOptions>();
  verb->add_option("FILE", options->input,
                   "A trace, a plan, statistics, or a CSV of events or lifetimes; all but plans may be gzipped")
      ->required()
      ->type_name("");
  verb->add_flag("--salvage", options->salvage, "Read a trace whose end is cut off as far as it is whole");
  verb->add_flag("--json", options->json, "Print JSON");
  verb->footer("Example: stalloc show run.trace");
  verb->callback([options, exit_code] { *exit_code = static_cast<int>(Run(*options)); });
}

}  // namespace stalloc::tools
