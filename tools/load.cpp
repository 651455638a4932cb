#include "tools/load.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "planner/plan_file.h"
#include "planner/trace_file.h"
#include "planner/unpacked_file.h"
#include "tools/spooled_input.h"
#include "tools/steps.h"

namespace stalloc::tools {
namespace {

using Head = std::array<char, 8>;

// The first bytes of what the file holds, zeros behind its end.
Head ReadHead(const std::string& path, planner::UnpackedFile& file) {
  Head head{};
  if (Take(file.Read(head.data(), head.size())) == 0) throw Failure(ExitCode::kBadInput, path + ": is empty");
  return head;
}

// Text has no control characters but white space.
bool IsText(const Head& head) {
  return std::all_of(head.begin(), head.end(), [](char c) {
    return static_cast<unsigned char>(c) >= ' ' || c == '\t' || c == '\n' || c == '\r';
  });
}

template <std::size_t size>
bool StartsWith(const Head& head, const char (&magic)[size]) {
  return std::memcmp(head.data(), magic, size) == 0;
}

planner::Trace ReadOwnTrace(const std::string& path, TraceEnd end) {
  const auto tail =
      end == TraceEnd::kMayBeCutOff ? planner::TraceTail::kMayBeTruncated : planner::TraceTail::kMustBeWhole;
  const auto read = [&](planner::TraceTail reading) {
    const auto file = Take(planner::UnpackedFile::Open(path));
    const planner::ByteSource source = [&](void* to, std::size_t size) {
      auto got = file->Read(to, size);
      const bool ends = !got && file->cut_off() && reading == planner::TraceTail::kMayBeTruncated;
      return ends ? planner::Result<std::size_t>(std::size_t{0}) : got;
    };
    return planner::ReadTrace(path, source, reading);
  };
  auto trace = read(tail);
  if (!trace && end == TraceEnd::kMustBeWhole && read(planner::TraceTail::kMayBeTruncated).ok()) {
    planner::FileError error = trace.error();
    error.reason += "; --salvage reads what is before that";
    Throw(error);
  }
  planner::Trace taken = Take(std::move(trace));
  LabelSteps(&taken);
  return taken;
}

// Only what `stalloc show` relies on is checked; members that a later version has added are let be.
StatisticsFile ReadStatistics(const std::string& path) {
  constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  const auto bad = [&](const std::string& why) { return Failure(ExitCode::kBadInput, path + ": " + why); };
  const auto contents = Take(planner::UnpackedFile::Open(path));
  std::vector<std::byte> bytes;
  for (std::size_t got = 1; got != 0;) {
    const std::size_t had = bytes.size();
    bytes.resize(had + 64 * 1024);
    got = Take(contents->Read(bytes.data() + had, bytes.size() - had));
    bytes.resize(had + got);
    if (bytes.size() > kMostBytes) throw bad("larger than " + std::to_string(kMostBytes) + " bytes");
  }
  StatisticsFile file;
  try {
    const auto* const begin = reinterpret_cast<const char*>(bytes.data());
    file.json = nlohmann::ordered_json::parse(begin, begin + bytes.size());
    if (file.json.at("format") != "stalloc-statistics") throw bad("JSON, but not stalloc's statistics");
    if (file.json.at("version") != 1)
      throw bad("statistics of version " + file.json.at("version").dump() + "; this command knows version 1");
    for (const char* part : {"process", "total"})
      if (!file.json.at(part).is_object()) throw bad(std::string("\"") + part + "\" is not an object");
    if (!file.json.at("devices").is_array()) throw bad("\"devices\" is not an array");
    for (const auto& device : file.json.at("devices"))
      if (!device.is_object()) throw bad("\"devices\" holds what is no object");
  } catch (const nlohmann::json::exception& error) {
    throw bad(error.what());
  }
  return file;
}

LoadedFile LoadFile(const std::string& path, TraceEnd end) {
  const auto file = Take(planner::UnpackedFile::Open(path));
  const Head head = ReadHead(path, *file);
  if (StartsWith(head, planner::kTraceBlockMagic)) return {"trace", ReadOwnTrace(path, end)};
  if (StartsWith(head, planner::kPlanFileMagic)) {
    if (file->gzipped()) throw Failure(ExitCode::kBadInput, path + ": a gzipped plan; gunzip unpacks it");
    return {"plan", Take(planner::ReadPlanFile(path))};
  }
  if (head.front() == '{') return {"statistics", ReadStatistics(path)};
  if (IsText(head)) {
    switch (Take(planner::DetectCsv(path))) {
      case planner::CsvKind::kEvents:
        return {"event CSV", Take(planner::ReadEventCsv(path))};
      case planner::CsvKind::kLifetimes:
        return {"lifetime CSV", Take(planner::ReadLifetimeCsv(path))};
    }
  }
  throw Failure(ExitCode::kBadInput, path + ": neither a trace, a plan, statistics nor a CSV of events or lifetimes");
}

}  // namespace

void Throw(const planner::FileError& error) {
  const bool refused = error.kind == planner::FileError::Kind::kIo;
  throw Failure(refused ? ExitCode::kInternal : ExitCode::kBadInput, error.Text());
}

void ThrowIf(const std::optional<planner::FileError>& error) {
  if (error) Throw(*error);
}

std::string LoadedFile::WithArticle() const {
  if (std::holds_alternative<StatisticsFile>(content)) return format;
  return (format.front() == 'e' ? "an " : "a ") + format;
}

LoadedFile Load(const std::string& path, TraceEnd end) {
  const SpooledInput input(path);
  try {
    return LoadFile(input.path(), end);
  } catch (const Failure& failure) {
    throw Failure(failure.code(), input.WithName(failure.what()));
  }
}

planner::Trace LoadTrace(const std::string& path, TraceEnd end) {
  LoadedFile file = Load(path, end);
  if (auto* trace = std::get_if<planner::Trace>(&file.content)) return std::move(*trace);
  throw Failure(ExitCode::kBadInput, path + ": holds " + file.WithArticle() + "; a trace is needed");
}

}  // namespace stalloc::tools
