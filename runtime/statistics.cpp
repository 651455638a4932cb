#include "runtime/statistics.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>

#include "planner/whole_file.h"
#include "runtime/device_memory.h"
#include "runtime/figure_text.h"
#include "runtime/process_identity.h"
#include "runtime/program_fingerprint.h"

namespace stalloc::runtime {
namespace {

using Json = nlohmann::ordered_json;

Json JsonOf(const DeviceFigures& figures) {
  Json json;
#define STALLOC_DEVICE_FIGURE(member, value, sentence) json[#member] = figures.member;
#define STALLOC_PROCESS_FIGURE(member, sentence)
#include "runtime/statistics.def"
#undef STALLOC_DEVICE_FIGURE
#undef STALLOC_PROCESS_FIGURE
  json["fragmentation"] = Fragmentation(figures);
  return json;
}

Json ProcessJson(const Statistics& statistics) {
  const ProcessIdentity process = ThisProcess();
  char program[17];
  std::snprintf(program, sizeof(program), "%016" PRIx64, ProgramFingerprint());
  Json json;
  json["pid"] = process.pid;
  json["host"] = process.host;
  json["rank"] = process.rank ? Json(*process.rank) : Json(nullptr);
  json["program"] = program;
#define STALLOC_DEVICE_FIGURE(member, value, sentence)
#define STALLOC_PROCESS_FIGURE(member, sentence) json[#member] = statistics.member;
#include "runtime/statistics.def"
#undef STALLOC_DEVICE_FIGURE
#undef STALLOC_PROCESS_FIGURE
  return json;
}

std::string Text(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

}  // namespace

DeviceFigures FiguresOf(const MemoryCounters& counters) {
  DeviceFigures figures;
#define STALLOC_DEVICE_FIGURE(member, value, sentence) figures.member = value;
#define STALLOC_PROCESS_FIGURE(member, sentence)
#include "runtime/statistics.def"
#undef STALLOC_DEVICE_FIGURE
#undef STALLOC_PROCESS_FIGURE
  return figures;
}

DeviceFigures Statistics::Total() const {
  DeviceFigures total;
  for (const DeviceStatistics& device : devices) {
#define STALLOC_DEVICE_FIGURE(member, value, sentence) total.member += device.figures.member;
#define STALLOC_PROCESS_FIGURE(member, sentence)
#include "runtime/statistics.def"
#undef STALLOC_DEVICE_FIGURE
#undef STALLOC_PROCESS_FIGURE
  }
  return total;
}

double Fragmentation(const DeviceFigures& figures) {
  if (figures.peak_reserved_bytes == 0) return 0.0;
  const double used = static_cast<double>(figures.peak_live_bytes) / static_cast<double>(figures.peak_reserved_bytes);
  return std::clamp(1.0 - used, 0.0, 1.0);
}

std::string SummaryLine(const Statistics& statistics) {
  const DeviceFigures total = statistics.Total();
  std::string line = "peak live " + SizeText(total.peak_live_bytes) + ", peak reserved " +
                     SizeText(total.peak_reserved_bytes) + ", fragmentation " +
                     Text("%.2f %%", 100.0 * Fragmentation(total));
  if (statistics.devices.size() > 1) line += " on " + std::to_string(statistics.devices.size()) + " devices";
  const std::uint64_t served = total.planned_requests + total.online_requests;
  line += "; requests: " + std::to_string(total.planned_requests);
  if (served > 0) line += " (" + ShareText(total.planned_requests, served) + ")";
  line += " planned, " + std::to_string(total.online_requests) + " online, " +
          std::to_string(statistics.passed_through_requests) + " passed through";
  if (total.out_of_memory > 0) line += "; out of memory " + std::to_string(total.out_of_memory) + " times";
  return line;
}

std::string StatisticsJson(const Statistics& statistics) {
  Json json;
  json["format"] = "stalloc-statistics";
  json["version"] = 1;
  json["process"] = ProcessJson(statistics);
  json["total"] = JsonOf(statistics.Total());
  json["devices"] = Json::array();
  for (const DeviceStatistics& device : statistics.devices) {
    Json entry;
    entry["ordinal"] = device.ordinal;
    entry["name"] = device.name;
    entry.update(JsonOf(device.figures));
    json["devices"].push_back(std::move(entry));
  }
  // A device's or a host's name in some other encoding must not cost the file.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<planner::FileError> WriteStatistics(const Statistics& statistics, const std::string& path) {
  const std::string json = StatisticsJson(statistics);
  return planner::WriteWholeFile(path, std::as_bytes(std::span(json)), true);
}

}  // namespace stalloc::runtime
