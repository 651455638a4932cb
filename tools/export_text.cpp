// The exports that are text, declared in tools/export.h.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "tools/export.h"
#include "tools/text.h"
#include "tools/trace_figures.h"

namespace stalloc::tools {
namespace {

using nlohmann::ordered_json;
using planner::TraceEvent;

std::string Dump(const ordered_json& json) { return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace); }

std::string SiteText(std::uint64_t site) { return Format("%016llx", static_cast<unsigned long long>(site)); }

}  // namespace

std::string ExportCsv(const planner::Trace& trace) {
  std::string csv = "op,id,bytes,stream,step\n";
  for (std::size_t k = 0; k < trace.events.size(); ++k) {
    const TraceEvent& event = trace.events[k];
    if (event.size_bytes == 0) continue;  // the format has none
    csv += event.op == TraceEvent::Op::kAllocate ? "a," : "f,";
    csv += std::to_string(event.block) + "," + std::to_string(event.size_bytes) + "," + std::to_string(event.stream) +
           "," + std::to_string(trace.steps.empty() ? 0 : trace.steps[k]) + "\n";
  }
  return csv;
}

std::string ExportJson(const planner::Trace& trace) {
  std::string json = R"({"format":"stalloc-events","version":1,"events":[)";
  for (std::size_t k = 0; k < trace.events.size(); ++k) {
    const TraceEvent& event = trace.events[k];
    ordered_json row = {{"op", event.op == TraceEvent::Op::kAllocate ? "allocate" : "free"},
                        {"block", event.block},
                        {"bytes", event.size_bytes},
                        {"device", event.device},
                        {"stream", event.stream},
                        {"thread", event.thread},
                        {"time_ns", event.time_ns}};
    if (event.call_site != 0) row["call_site"] = SiteText(event.call_site);
    if (!trace.steps.empty()) row["step"] = trace.steps[k];
    json += (k == 0 ? "\n" : ",\n") + Dump(row);
  }
  ordered_json sites = ordered_json::object();
  for (const auto& [site, frames] : trace.frames) sites[SiteText(site)] = frames;
  return json + "\n],\"call_sites\":" + Dump(sites) + "}\n";
}

std::string ExportPerfetto(const planner::Trace& trace) {
  const bool has_times = !trace.events.empty() && trace.events.front().time_ns != trace.events.back().time_ns;
  std::string json = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  json += Dump({{"ph", "M"}, {"pid", 1}, {"name", "process_name"}, {"args", {{"name", "GPU memory"}}}});
  std::vector<std::uint64_t> sites;
  for (const auto& [site, frames] : trace.frames) sites.push_back(site);
  const std::vector<CallSiteName> names = NamesOf(trace, sites);
  std::unordered_map<std::uint64_t, std::string> place;
  for (std::size_t i = 0; i < names.size(); ++i) place.emplace(sites[i], names[i].place);
  std::unordered_map<std::uint64_t, const TraceEvent*> live;
  std::map<unsigned, std::uint64_t> live_bytes;
  for (std::size_t k = 0; k < trace.events.size(); ++k) {
    const TraceEvent& event = trace.events[k];
    const bool begins = event.op == TraceEvent::Op::kAllocate;
    const TraceEvent* block = &event;
    if (begins) {
      live[event.block] = &event;
      live_bytes[event.device] += event.size_bytes;
    } else {
      const auto known = live.find(event.block);
      if (known == live.end()) continue;
      block = known->second;
      live.erase(known);
      live_bytes[event.device] -= block->size_bytes;
    }
    // Microseconds; without times, one an event.
    const double at = has_times ? static_cast<double>(event.time_ns) / 1000 : static_cast<double>(k);
    const auto named = place.find(block->call_site);
    const std::string name = named == place.end() ? HumanBytes(block->size_bytes) : named->second;
    ordered_json span = {{"ph", begins ? "b" : "e"},
                         {"cat", "block"},
                         {"name", name},
                         {"id", event.block},
                         {"pid", 1},
                         {"tid", 1},
                         {"ts", at}};
    if (begins)
      span["args"] = {{"bytes", event.size_bytes}, {"stream", event.stream}, {"call_site", SiteText(event.call_site)}};
    json += ",\n" + Dump(span);
    json += ",\n" + Dump({{"ph", "C"},
                          {"name", Format("live bytes, device %u", event.device)},
                          {"pid", 1},
                          {"ts", at},
                          {"args", {{"bytes", live_bytes[event.device]}}}});
  }
  return json + "\n]}\n";
}

}  // namespace stalloc::tools
