// What `stalloc show` says of a statistics file: the process and its sums as figures, devices and iterations as tables.
#include "tools/summary.h"

namespace stalloc::tools {
namespace {

using nlohmann::ordered_json;

// The member, or null where an older or a shortened file lacks it.
ordered_json Member(const ordered_json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() ? *found : ordered_json(nullptr);
}

ordered_json DeviceRow(const ordered_json& device) {
  ordered_json row;
  for (const char* name : {"ordinal", "name", "peak_live_bytes", "peak_reserved_bytes", "fragmentation",
                           "planned_requests", "online_requests", "iterations", "map_us", "waits_inserted"})
    row[name] = Member(device, name);
  return row;
}

ordered_json PlanRow(const ordered_json& device) {
  const ordered_json plan = Member(device, "plan");
  ordered_json row = {{"ordinal", Member(device, "ordinal")}};
  for (const char* name : {"state", "reason", "kept", "shared", "method", "period", "requests", "planned_requests",
                           "choices", "pressure_switches"})
    row[name] = plan.is_object() ? Member(plan, name) : ordered_json(nullptr);
  return row;
}

ordered_json IterationRow(const ordered_json& device, const ordered_json& iteration, const char* first) {
  ordered_json row = {{"ordinal", Member(device, "ordinal")}};
  for (const char* name : {first, "requests", "planned_requests", "map_calls", "map_us", "search_us", "wait_us",
                           "marker_us", "call_site_us", "learning_us", "waits_inserted"})
    row[name] = Member(iteration, name);
  return row;
}

}  // namespace

void Summarise(const StatisticsFile& statistics, const SummaryOptions& /*options*/, ordered_json* summary) {
  for (const auto& figure : statistics.json.at("process").items()) (*summary)[figure.key()] = figure.value();
  if (summary->contains("pid")) (*summary)["pid"] = (*summary)["pid"].dump();  // a name and no amount
  for (const auto& figure : statistics.json.at("total").items()) (*summary)[figure.key()] = figure.value();
  for (const char* table : {"devices", "plans", "last_iterations", "after_warm_up"})
    (*summary)[table] = ordered_json::array();
  for (const ordered_json& device : statistics.json.at("devices")) {
    (*summary)["devices"].push_back(DeviceRow(device));
    (*summary)["plans"].push_back(PlanRow(device));
    const ordered_json iterations = Member(device, "last_iterations");
    if (iterations.is_array()) {
      for (const ordered_json& iteration : iterations)
        if (iteration.is_object()) (*summary)["last_iterations"].push_back(IterationRow(device, iteration, "number"));
    }
    const ordered_json warm = Member(device, "after_warm_up");
    if (warm.is_object()) (*summary)["after_warm_up"].push_back(IterationRow(device, warm, "from_iteration"));
  }
}

}  // namespace stalloc::tools
