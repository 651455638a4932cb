// Reads any file that the verbs take, and says which kind it was: by its contents, never by its name. All but plans may
// be gzipped.
//
// Everything that is wrong with a file ends as a Failure: kInternal if the system refused it, kBadInput, with the place
// and the reason, if its contents did.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>

#include "planner/csv.h"
#include "planner/plan.h"
#include "planner/result.h"
#include "planner/trace_problem.h"
#include "tools/failure.h"

namespace stalloc::tools {

// What STALLOC_STATS has written: the members are those of runtime/service/statistics.h.
struct StatisticsFile {  // NOLINT(bugprone-exception-escape): moving JSON throws nothing
  nlohmann::ordered_json json;
};

struct LoadedFile {
  std::string format;  // for people: "trace", "event CSV", "lifetime CSV", "plan", "statistics"
  std::variant<planner::Trace, planner::LifetimeTable, planner::Plan, StatisticsFile> content;

  std::string WithArticle() const;  // "a plan"
};

// A program that is killed leaves a trace whose last block is cut off. Nothing before it is lost, but whoever reads it
// must have asked for that.
enum class TraceEnd : bool { kMustBeWhole, kMayBeCutOff };

LoadedFile Load(const std::string& path, TraceEnd end);

// Load, but Failure(kBadInput) if the file is no trace.
planner::Trace LoadTrace(const std::string& path, TraceEnd end);

[[noreturn]] void Throw(const planner::FileError& error);
void ThrowIf(const std::optional<planner::FileError>& error);

template <typename T>
T Take(planner::Result<T> result) {
  if (!result.ok()) Throw(result.error());
  return std::move(*result);
}

}  // namespace stalloc::tools
