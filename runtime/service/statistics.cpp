#include "runtime/service/statistics.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>

#include "planner/whole_file.h"
#include "runtime/base/figure_text.h"
#include "runtime/base/process_identity.h"
#include "runtime/call_sites/program_fingerprint.h"

namespace stalloc::runtime {
namespace {

using Json = nlohmann::ordered_json;

Json JsonOf(const DeviceFigures& figures) {
  Json json;
#define STALLOC_DEVICE_FIGURE(member, value, sentence) json[#member] = figures.member;
#define STALLOC_PROCESS_FIGURE(member, sentence)
#include "runtime/service/statistics.def"
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
#include "runtime/service/statistics.def"
#undef STALLOC_DEVICE_FIGURE
#undef STALLOC_PROCESS_FIGURE
  return json;
}

Json Named(const IterationLog::Totals& spent) {
  return {{"requests", spent.requests},
          {"planned_requests", spent.planned},
          {"map_calls", spent.map_calls},
          {"map_us", spent.spent.us(Cause::kMapping)},
          {"waits_inserted", spent.waits},
          {"wait_us", spent.spent.us(Cause::kWaits)},
          {"search_us", spent.spent.us(Cause::kSearch)},
          {"marker_us", spent.spent.us(Cause::kMarkers)},
          {"call_site_us", spent.spent.us(Cause::kCallSites)},
          {"learning_us", spent.spent.us(Cause::kLearning)}};
}

const char* NameOf(PlanStatus::State state) {
  switch (state) {
    case PlanStatus::State::kOff:
      return "off";
    case PlanStatus::State::kWatching:
      return "watching";
    case PlanStatus::State::kWaiting:
      return "waiting";
    case PlanStatus::State::kOnTrial:
      return "on trial";
    case PlanStatus::State::kSettled:
      return "settled";
    case PlanStatus::State::kLeftAlone:
      return "left alone";
  }
  return "";
}

Json NameOf(PlanStatus::Reason reason) {
  switch (reason) {
    case PlanStatus::Reason::kNone:
      return nullptr;
    case PlanStatus::Reason::kNoIteration:
      return "no iteration";
    case PlanStatus::Reason::kIterationsDiffer:
      return "iterations differ";
    case PlanStatus::Reason::kNoHostMemory:
      return "no host memory";
  }
  return nullptr;
}

const char* NameOf(PlanStatus::Kept kept) {
  switch (kept) {
    case PlanStatus::Kept::kNotLookedFor:
      return "not looked for";
    case PlanStatus::Kept::kNone:
      return "none";
    case PlanStatus::Kept::kUsed:
      return "used";
    case PlanStatus::Kept::kRefused:
      return "refused";
  }
  return "";
}

Json PlanJson(const DeviceStatistics& device) {
  const PlanStatus& plan = device.plan;
  return {{"state", NameOf(plan.state)},
          {"reason", NameOf(plan.reason)},
          {"kept", NameOf(plan.kept)},
          {"file", plan.file.empty() ? Json(nullptr) : Json(plan.file)},
          {"shared", plan.shared},
          {"not_kept", plan.not_kept.empty() ? Json(nullptr) : Json(plan.not_kept)},
          {"method", plan.method.empty() ? Json(nullptr) : Json(plan.method)},
          {"period", plan.period},
          {"requests", plan.requests},
          {"planned_requests", plan.planned_requests},
          {"choices", plan.choices},
          {"pressure_switches", plan.pressure_switches}};
}

Json DeviceJson(const DeviceStatistics& device) {
  Json json;
  json["ordinal"] = device.ordinal;
  json["name"] = device.name;
  json.update(JsonOf(device.figures));
  json["limit_bytes"] = device.limit_bytes ? Json(*device.limit_bytes) : Json(nullptr);
  json["plan"] = PlanJson(device);
  json["last_iterations"] = Json::array();
  device.iterations.VisitLast([&](const IterationLog::Iteration& iteration) {
    Json entry = {{"number", iteration.number}};
    entry.update(Named(iteration.spent));
    json["last_iterations"].push_back(std::move(entry));
  });
  json["after_warm_up"] = nullptr;
  if (device.iterations.warm_from() != 0) {
    json["after_warm_up"] = {{"from_iteration", device.iterations.warm_from()}};
    json["after_warm_up"].update(Named(device.after_warm_up));
  }
  return json;
}

std::string Text(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

// Why most requests had no planned place, of the device with most of them, in a few words.
std::string WhyOnline(const Statistics& statistics) {
  // Fewer than this are fewer than two iterations of anything that trains.
  constexpr std::uint64_t kTooFew = 256;
  const auto device = std::max_element(
      statistics.devices.begin(), statistics.devices.end(),
      [](const auto& a, const auto& b) { return a.figures.online_requests < b.figures.online_requests; });
  const DeviceFigures& figures = device->figures;
  switch (device->plan.state) {
    case PlanStatus::State::kOff:
      return "planning is off";
    case PlanStatus::State::kWaiting:
      return figures.planned_requests == 0 ? "the run ended before its plan came into force"
                                           : "the plan came late in the run";
    case PlanStatus::State::kOnTrial:
    case PlanStatus::State::kSettled:
      if (figures.slot_busy * 2 > figures.online_requests) return "planned places were still in use";
      if (figures.matched_requests * 2 < figures.planned_requests + figures.online_requests)
        return "the plan came late in the run";
      return "many requests of an iteration have no planned place";
    case PlanStatus::State::kWatching:
    case PlanStatus::State::kLeftAlone:
      break;
  }
  if (device->plan.reason == PlanStatus::Reason::kNoHostMemory) return "the host ran out of memory";
  if (device->plan.reason == PlanStatus::Reason::kIterationsDiffer) return "iterations differ too much";
  return figures.planned_requests + figures.online_requests < kTooFew ? "too few requests to learn from"
                                                                      : "no repeating iteration was found";
}

}  // namespace

DeviceFigures FiguresOf(const MemorySnapshot& memory) {
  const MemoryCounters& counters = memory.counters;
  const IdleMemory& idle = memory.idle;
  DeviceFigures figures;
#define STALLOC_DEVICE_FIGURE(member, value, sentence) figures.member = value;
#define STALLOC_PROCESS_FIGURE(member, sentence)
#include "runtime/service/statistics.def"
#undef STALLOC_DEVICE_FIGURE
#undef STALLOC_PROCESS_FIGURE
  return figures;
}

DeviceStatistics StatisticsOf(const DeviceService& service) {
  const MemorySnapshot memory = service.memory().Snapshot();
  const IterationLog::Totals now = {.requests = memory.counters.planned_requests + memory.counters.online_requests,
                                    .planned = memory.counters.planned_requests,
                                    .map_calls = memory.counters.map_calls,
                                    .waits = memory.counters.waits_inserted,
                                    .spent = memory.counters.spent};
  return {.ordinal = static_cast<int>(service.device()),
          .name = service.name(),
          .figures = FiguresOf(memory),
          .limit_bytes = service.limit_bytes(),
          .iterations = memory.iterations,
          .after_warm_up = now - memory.iterations.warm(),
          .plan = service.learner().status()};
}

void Statistics::AddEnded(DeviceStatistics ended) {
  DeviceFigures& gone = ended.figures;
  gone.live_bytes = gone.reserved_bytes = gone.views = gone.growth_bytes = 0;
  gone.idle_usable_bytes = gone.idle_ordered_bytes = gone.idle_remainder_bytes = gone.idle_view_bytes = 0;
  const auto entry =
      std::find_if(devices.begin(), devices.end(), [&](const auto& device) { return device.ordinal == ended.ordinal; });
  if (entry == devices.end()) {
    devices.push_back(std::move(ended));
    return;
  }
  DeviceFigures& figures = entry->figures;
  // One after the other: counts add up, peaks do not.
  const std::uint64_t peak_live_bytes = std::max(figures.peak_live_bytes, gone.peak_live_bytes);
  const std::uint64_t peak_reserved_bytes = std::max(figures.peak_reserved_bytes, gone.peak_reserved_bytes);
#define STALLOC_DEVICE_FIGURE(member, value, sentence) figures.member += gone.member;
#define STALLOC_PROCESS_FIGURE(member, sentence)
#include "runtime/service/statistics.def"
#undef STALLOC_DEVICE_FIGURE
#undef STALLOC_PROCESS_FIGURE
  figures.peak_live_bytes = peak_live_bytes;
  figures.peak_reserved_bytes = peak_reserved_bytes;
}

DeviceFigures Statistics::Total() const {
  DeviceFigures total;
  for (const DeviceStatistics& device : devices) {
#define STALLOC_DEVICE_FIGURE(member, value, sentence) total.member += device.figures.member;
#define STALLOC_PROCESS_FIGURE(member, sentence)
#include "runtime/service/statistics.def"
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
  if (total.growth_bytes > 0) line += "; up to " + SizeText(total.growth_bytes) + " more held to save time";
  if (total.planned_requests * 2 < served)
    line += (total.planned_requests == 0 ? "; not planned: " : "; mostly online: ") + WhyOnline(statistics);
  if (total.out_of_memory > 0)
    line += total.out_of_memory == 1 ? "; out of memory once"
                                     : "; out of memory " + std::to_string(total.out_of_memory) + " times";
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
    json["devices"].push_back(DeviceJson(device));
  }
  // A device's or a host's name in some other encoding must not cost the file.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<planner::FileError> FindStatisticsObstacle(const std::string& path) {
  return planner::FindObstacle(path, std::string_view("{"));
}

std::optional<planner::FileError> WriteStatistics(const Statistics& statistics, const std::string& path) {
  if (auto obstacle = FindStatisticsObstacle(path)) return obstacle;
  const std::string json = StatisticsJson(statistics);
  return planner::WriteWholeFile(path, std::as_bytes(std::span(json)), true);
}

}  // namespace stalloc::runtime
