// stalloc import: a file of another tool as a trace.
#include <cstdio>
#include <memory>

#include "planner/trace_file.h"
#include "planner/unpacked_file.h"
#include "tools/import.h"
#include "tools/load.h"
#include "tools/output_file.h"
#include "tools/spooled_input.h"
#include "tools/text.h"
#include "tools/verbs.h"

namespace stalloc::tools {
namespace {

struct ImportOptions {
  std::string input;
  std::string output;
  bool force = false;
};

// By its contents: a pickle begins with its protocol, RMM's log with its header.
planner::Trace Import(const std::string& path) {
  char head[7] = {};
  const auto file = Take(planner::UnpackedFile::Open(path));
  const std::size_t size = Take(file->Read(head, sizeof head));
  if (size >= 2 && static_cast<unsigned char>(head[0]) == 0x80) return ImportTorchSnapshot(path);
  if (std::string_view(head, size) == "Thread,") return ImportRmmLog(path);
  throw Failure(ExitCode::kBadInput, path + ": neither a memory snapshot of PyTorch nor a log of RMM");
}

ExitCode Run(const ImportOptions& options) {
  CheckOutputFile(options.output, options.input, options.force);
  planner::Trace trace;
  const SpooledInput input(options.input);
  try {
    trace = Import(input.path());
  } catch (const Failure& failure) {
    throw Failure(failure.code(), input.WithName(failure.what()));
  }
  if (trace.events.empty()) throw Failure(ExitCode::kBadInput, options.input + ": holds no request");
  const auto writer = Take(planner::TraceWriter::Create(options.output));
  ThrowIf(writer->Append(trace.events));
  std::vector<planner::CallSiteFrames> names;
  for (const auto& [site, frames] : trace.frames) names.push_back({site, frames});
  ThrowIf(writer->AppendNames(names));
  std::fprintf(stderr, "stalloc: %s: %s events, %s call sites\n", options.output.c_str(),
               Grouped(trace.events.size()).c_str(), Grouped(trace.frames.size()).c_str());
  return ExitCode::kOk;
}

}  // namespace

void AddImportVerb(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand("import", "Make a trace of a memory snapshot of PyTorch or a log of RMM");
  const auto options = std::make_shared<ImportOptions>();
  verb->add_option(
          "FILE", options->input,
          "What torch.cuda.memory._dump_snapshot or RMM's logging adaptor wrote; either may be gzipped; - reads "
          "standard input. Nothing in a pickle is run")
      ->required()
      ->type_name("");
  verb->add_option("-o,--output", options->output, "The trace, for show, plan, replay and report")
      ->required()
      ->type_name("TRACE");
  verb->add_flag("--force", options->force, "Overwrite a trace that is there already");
  verb->footer("Example: stalloc import snapshot.pickle -o run.trace");
  verb->callback([options, exit_code] { *exit_code = static_cast<int>(Run(*options)); });
}

}  // namespace stalloc::tools
