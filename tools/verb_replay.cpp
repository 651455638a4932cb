// stalloc replay: how much memory stalloc, and models of other allocators, would hold over the requests of a trace.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "planner/plan_file.h"
#include "planner/whole_file.h"
#include "runtime/base/settings.h"
#include "tools/load.h"
#include "tools/options.h"
#include "tools/replay.h"
#include "tools/text.h"
#include "tools/verbs.h"

namespace stalloc::tools {
namespace {

struct ReplayOptions {
  std::string input;
  std::vector<std::string> allocators;  // empty: all of them
  StallocReplayOptions stalloc;
  bool salvage = false;
  bool json = false;
};

std::vector<std::string> AllAllocators() {
  std::vector<std::string> names = AllocatorModelNames();
  names.insert(names.begin(), kStallocAllocator);
  return names;
}

// As the setting is read.
std::optional<double> GrowthIn(const std::string& text) {
  const std::string entry = "STALLOC_GROWTH=" + text;
  const char* const block[] = {entry.c_str(), nullptr};
  std::vector<std::string> warnings;
  const runtime::Settings settings = runtime::LoadSettings(block, &warnings);
  if (warnings.empty() && !text.empty()) return settings.growth.fixed;
  for (const runtime::SettingDescription& row : runtime::DescribeSettings())
    if (entry.starts_with(std::string(row.name) + "="))
      throw CLI::ValidationError("--growth", "\"" + text + "\" must be " + row.form);
  return std::nullopt;
}

nlohmann::ordered_json JsonOf(const ReplayResult& result) {
  nlohmann::ordered_json json;
  json["allocator"] = result.allocator;
  json["run"] = result.run;
  json["peak_live_bytes"] = result.peak_live_bytes;
  json["peak_reserved_bytes"] = result.peak_reserved_bytes;
  json["fragmentation"] = result.Fragmentation();
  json["planned"] = result.planned;
  json["online"] = result.online;
  json["map_calls"] = result.map_calls;
  json["map_calls_by_step"] = result.map_calls_by_step;
  json["planned_by_step"] = result.planned_by_step;
  json["waits_inserted"] = result.waits_inserted;
  json["corruptions"] = result.corruptions;
  json["seconds"] = result.seconds;
  return json;
}

void PrintJson(const std::vector<ReplayResult>& results) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ReplayResult& result : results) list.push_back(JsonOf(result));
  std::printf("%s\n", list.dump(2).c_str());
}

void PrintText(const std::string& input, const std::vector<ReplayResult>& results) {
  std::printf("%s: peak live %s\n\n", input.c_str(), HumanBytes(results.front().peak_live_bytes).c_str());
  std::printf("  %-18s %13s %14s %10s %10s %10s\n", "allocator", "peak reserved", "fragmentation", "planned", "online",
              "map calls");
  for (const ReplayResult& result : results) {
    const std::string name =
        result.run > 1 ? Format("%s, run %u", result.allocator.c_str(), result.run) : result.allocator;
    std::printf("  %-18s %13s %12.2f %% %10s %10s %10s\n", name.c_str(), HumanBytes(result.peak_reserved_bytes).c_str(),
                100 * result.Fragmentation(), Grouped(result.planned).c_str(), Grouped(result.online).c_str(),
                Grouped(result.map_calls).c_str());
  }
  const bool models = std::any_of(results.begin(), results.end(),
                                  [](const ReplayResult& result) { return result.allocator != kStallocAllocator; });
  if (models) std::printf("\n  All but stalloc, which is replayed as it is, are models of those allocators.\n");
}

ExitCode Run(const ReplayOptions& options) {
  const planner::Trace trace =
      OneDevice(LoadTrace(options.input, options.salvage ? TraceEnd::kMayBeCutOff : TraceEnd::kMustBeWhole));
  if (!options.stalloc.plan_path.empty())
    ThrowIf(planner::FindObstacle(options.stalloc.plan_path, planner::kPlanFileMagic));
  if (trace.events.empty()) throw Failure(ExitCode::kBadInput, options.input + ": holds no request");
  std::vector<ReplayResult> results;
  for (const std::string& name : options.allocators.empty() ? AllAllocators() : options.allocators) {
    if (name == kStallocAllocator) {
      try {
        for (ReplayResult& result : ReplayStalloc(trace, options.stalloc)) results.push_back(std::move(result));
      } catch (const Failure& failure) {
        throw Failure(failure.code(), options.input + ": " + failure.what());
      }
    } else {
      results.push_back(ReplayModel(trace, name, *MakeAllocatorModel(name)));
    }
  }
  options.json ? PrintJson(results) : PrintText(options.input, results);
  for (const ReplayResult& result : results) {
    if (result.corruptions != 0) {
      throw Failure(ExitCode::kInternal, "a block's contents were overwritten: this is a bug of stalloc");
    }
  }
  return ExitCode::kOk;
}

}  // namespace

void AddReplayVerb(CLI::App& app, int* exit_code) {
  CLI::App* verb =
      app.add_subcommand("replay", "Run a trace's requests through stalloc and models of other allocators");
  const auto options = std::make_shared<ReplayOptions>();
  verb->add_option("FILE", options->input,
                   "A trace, or a CSV with the columns op,id,bytes,stream,step (op: a, allocated, or f, freed); either "
                   "may be gzipped; - reads standard input")
      ->required()
      ->type_name("");
  verb->add_option("--allocator", options->allocators,
                   "One or more of: " + CLI::detail::join(AllAllocators(), ", ") + " (default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember(AllAllocators()).description(""))
      ->type_name("NAME,...");
  verb->add_option("--runs", options->stalloc.runs, "Replay stalloc N times, each with the plan of the one before")
      ->check(CLI::Range(1, 100).description(""))
      ->type_name("N");
  verb->add_option("--plan", options->stalloc.plan_path, "As STALLOC_PLAN: start from this plan and keep it there")
      ->type_name("FILE");
  verb->add_option_function<std::string>(
          "--growth", [options](const std::string& text) { options->stalloc.growth = GrowthIn(text); },
          "As STALLOC_GROWTH (default auto, by the trace's times; 1 where it has none)")
      ->type_name("X");
  verb->add_flag_callback(
      "--no-planning", [options] { options->stalloc.planning = false; }, "Serve every request online");
  verb->add_option("--look-every", options->stalloc.look_every,
                   "Look for a plan after every N requests and frees (default 1000); when it comes depends on it")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 30).description(""))
      ->type_name("N");
  AddSizeOption(*verb, "--memory", options->stalloc.device_memory_bytes,
                "The simulated device's memory (default 140GiB)");
  verb->add_flag("--salvage", options->salvage, "Read a trace whose end is cut off as far as it is whole");
  verb->add_flag("--json", options->json, "Print JSON");
  verb->footer("Example: stalloc replay run.trace --allocator stalloc,torch");
  verb->callback([options, exit_code] { *exit_code = static_cast<int>(Run(*options)); });
}

}  // namespace stalloc::tools
