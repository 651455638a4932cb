// stalloc export: a trace in a format of other tools.
#include <map>
#include <memory>
#include <span>

#include "planner/whole_file.h"
#include "tools/export.h"
#include "tools/load.h"
#include "tools/output_file.h"
#include "tools/verbs.h"

namespace stalloc::tools {
namespace {

struct ExportOptions {
  std::string input;
  std::string output;
  std::string format;
  bool salvage = false;
  bool force = false;
};

using Writer = std::string (*)(const planner::Trace& trace);
const std::map<std::string, Writer>& Formats() {
  static const std::map<std::string, Writer> formats = {
      {"csv", ExportCsv}, {"json", ExportJson}, {"perfetto", ExportPerfetto}, {"torch-snapshot", ExportTorchSnapshot}};
  return formats;
}

ExitCode Run(const ExportOptions& options) {
  CheckOutputFile(options.output, options.input, options.force);
  const planner::Trace trace =
      LoadTrace(options.input, options.salvage ? TraceEnd::kMayBeCutOff : TraceEnd::kMustBeWhole);
  const std::string contents = Formats().at(options.format)(trace);
  ThrowIf(planner::WriteWholeFile(options.output, std::as_bytes(std::span(contents)), options.force));
  return ExitCode::kOk;
}

}  // namespace

void AddExportVerb(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand("export", "Write a trace in a format of other tools");
  const auto options = std::make_shared<ExportOptions>();
  verb->add_option("FILE", options->input, "A trace or a CSV of events, which may be gzipped; - reads standard input")
      ->required()
      ->type_name("");
  std::vector<std::string> names;
  for (const auto& [name, writer] : Formats()) names.push_back(name);
  verb->add_option("--to", options->format,
                   "perfetto (ui.perfetto.dev), torch-snapshot (PyTorch's memory viewer; blocks get addresses by best "
                   "fit), csv or json")
      ->required()
      ->check(CLI::IsMember(names).description(""))
      ->type_name("FORMAT");
  verb->add_option("-o,--output", options->output, "The file; /dev/stdout for standard output")
      ->required()
      ->type_name("FILE");
  verb->add_flag("--salvage", options->salvage, "Read a trace whose end is cut off as far as it is whole");
  verb->add_flag("--force", options->force, "Overwrite a file that is there already");
  verb->footer("Example: stalloc export run.trace --to torch-snapshot -o snapshot.pickle");
  verb->callback([options, exit_code] { *exit_code = static_cast<int>(Run(*options)); });
}

}  // namespace stalloc::tools
