// The reports that a run's processes leave in a folder, by the beginning of their names: torch-PID.json (PyTorch's
// counters; tools/python/simulated), device-PID.json (the simulated driver's) and stats-PID.json (stalloc's own).
#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <string_view>
#include <utility>

#include "tools/fit.h"

namespace stalloc::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

template <typename T>
T Member(const json& object, const char* name, T otherwise) {
  const auto member = object.find(name);
  if (member == object.end() || member->is_null()) return otherwise;
  return member->get<T>();
}

const json& List(const json& object, const char* name) {
  static const json kNone = json::array();
  const auto member = object.find(name);
  return member == object.end() || !member->is_array() ? kNone : *member;
}

struct Uses {
  std::map<std::pair<int, int>, DeviceUse> by_process_and_device;
  DeviceUse& Of(int process, const json& device) {
    const int index = Member(device, "device", 0);
    DeviceUse& use = by_process_and_device[{process, index}];
    use.process = process;
    use.device = index;
    return use;
  }
};

void AddDeviceReport(const json& report, int process, Uses* uses) {
  for (const json& device : List(report, "devices")) {
    const auto peak = Member<std::uint64_t>(device, "peak_physical_bytes", 0);
    const auto refused = Member<std::uint64_t>(device, "refused_requests", 0);
    if (peak == 0 && refused == 0) continue;
    DeviceUse& use = uses->Of(process, device);
    use.peak_device_bytes = peak;
    use.refused_requests = refused;
  }
}

// How often something was met, as {"what": times}.
void AddSentences(const json& report, const char* name, std::set<std::string>* sentences) {
  const auto counts = report.find(name);
  if (counts == report.end() || !counts->is_object()) return;
  for (const auto& [what, times] : counts->items())
    sentences->insert(what + (times.is_number() && times > 1 ? ", " + times.dump() + " times" : std::string()));
}

// The error that ended the program, if it was for want of memory.
std::optional<OutOfMemory> OutOfMemoryIn(const json& report, int rank) {
  const auto error = report.find("error");
  if (error == report.end() || !error->is_object() || !Member(*error, "out_of_memory", false)) return std::nullopt;
  OutOfMemory found;
  found.rank = rank;
  found.step = Member<std::uint64_t>(*error, "step", 0) + 1;  // the report counts those that were finished
  found.message = Member<std::string>(*error, "message", "");
  const auto place = error->find("call_site");
  if (place == error->end() || !place->is_object()) return found;
  found.file = Member<std::string>(*place, "file", "");
  found.line = Member(*place, "line", 0);
  found.function = Member<std::string>(*place, "function", "");
  return found;
}

void AddTorchReport(const json& report, int process, Uses* uses, FitReports* reports) {
  const int rank = Member(report, "rank", 0);
  reports->torch = Member<std::string>(report, "torch", "of unknown version");
  reports->backend = Member<std::string>(report, "backend", reports->backend);
  reports->steps = std::max(reports->steps, Member<std::uint64_t>(report, "steps", 0));
  for (const json& device : List(report, "devices")) {
    DeviceUse& use = uses->Of(process, device);
    use.rank = rank;
    use.peak_live_bytes = Member<std::uint64_t>(device, "peak_allocated_bytes", 0);
    use.peak_reserved_bytes = Member<std::uint64_t>(device, "peak_reserved_bytes", 0);
    use.retries = Member<std::uint64_t>(device, "retries", 0);
  }
  AddSentences(report, "choices", &reports->choices);
  AddSentences(report, "unsimulated", &reports->unsimulated);
  const std::optional<OutOfMemory> found = OutOfMemoryIn(report, rank);
  if (found && (!reports->out_of_memory || found->step < reports->out_of_memory->step)) reports->out_of_memory = found;
}

// Where no framework counts, stalloc does.
void AddStatistics(const json& report, int process, Uses* uses) {
  for (const json& device : List(report, "devices")) {
    DeviceUse& use = uses->Of(process, device);
    if (use.peak_live_bytes) continue;
    use.peak_live_bytes = Member<std::uint64_t>(device, "peak_live_bytes", 0);
    use.peak_reserved_bytes = Member<std::uint64_t>(device, "peak_reserved_bytes", 0);
  }
}

struct ReportFile {
  int process = 0;
  json content;
};

// Those named `kind`-PID.json.
std::vector<ReportFile> ReportsOf(const fs::path& folder, std::string_view kind) {
  std::vector<ReportFile> reports;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const std::string start = std::string(kind) + "-";
    if (!name.starts_with(start) || !name.ends_with(".json")) continue;
    ReportFile report;
    std::from_chars(name.data() + start.size(), name.data() + name.size(), report.process);
    std::ifstream file(entry.path());
    report.content = json::parse(file, nullptr, /*allow_exceptions=*/false);
    if (report.content.is_object()) reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace

std::uint64_t DeviceUse::HeldBytes() const { return std::max(peak_device_bytes, peak_reserved_bytes.value_or(0)); }

FitReports ReadFitReports(const fs::path& folder) {
  FitReports reports;
  Uses uses;
  for (const ReportFile& report : ReportsOf(folder, "device")) AddDeviceReport(report.content, report.process, &uses);
  for (const ReportFile& report : ReportsOf(folder, "torch"))
    AddTorchReport(report.content, report.process, &uses, &reports);
  for (const ReportFile& report : ReportsOf(folder, "stats")) AddStatistics(report.content, report.process, &uses);
  for (const auto& [key, use] : uses.by_process_and_device) reports.uses.push_back(use);
  std::stable_sort(reports.uses.begin(), reports.uses.end(),
                   [](const DeviceUse& a, const DeviceUse& b) { return a.HeldBytes() > b.HeldBytes(); });
  return reports;
}

}  // namespace stalloc::tools
