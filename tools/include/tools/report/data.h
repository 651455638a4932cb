// Everything that the page of `stalloc report` shows, as figures.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tools/load.h"
#include "tools/replay.h"

namespace stalloc::tools::report {

struct DataOptions {
  std::string file;  // as the user named it
  StallocReplayOptions replay;
  std::string growth;  // as the user gave it; empty: auto
  std::chrono::nanoseconds plan_time_limit = std::chrono::seconds(10);
};

struct Data {
  nlohmann::ordered_json figures;  // tools/report/*.js say what they read
  std::string blocks;              // PackedMap::base64
};

// Replays the trace with stalloc and with all models, and plans its last whole step. Throws Failure.
Data DataOf(const std::string& format, const planner::Trace& trace, const DataOptions& options);

}  // namespace stalloc::tools::report
