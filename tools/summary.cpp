#include "tools/summary.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "planner/lower_bound.h"
#include "runtime/learning/plan_content.h"
#include "tools/text.h"

namespace stalloc::tools {
namespace {

using nlohmann::ordered_json;
using planner::TraceEvent;

constexpr std::size_t kLargestCallSites = 10;

struct StepFigures {
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;
  std::uint64_t peak_live_bytes = 0;
};

struct SiteFigures {
  std::uint64_t requests = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t peak_live_bytes = 0;
};

struct TraceFigures {
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t bytes = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t peak_live_bytes = 0;
  std::set<std::uint32_t> streams, threads;
  std::set<unsigned> devices;
  std::map<std::uint32_t, StepFigures> steps;
  std::unordered_map<std::uint64_t, SiteFigures> sites;
};

TraceFigures FiguresOf(const planner::Trace& trace) {
  TraceFigures figures;
  std::unordered_map<std::uint64_t, std::uint64_t> site_of;
  for (std::size_t k = 0; k < trace.events.size(); ++k) {
    const TraceEvent& event = trace.events[k];
    figures.streams.insert(event.stream);
    figures.threads.insert(event.thread);
    figures.devices.insert(event.device);
    StepFigures* step = trace.steps.empty() ? nullptr : &figures.steps[trace.steps[k]];
    if (event.op == TraceEvent::Op::kAllocate) {
      ++figures.allocations;
      figures.bytes += event.size_bytes;
      figures.live_bytes += event.size_bytes;
      figures.peak_live_bytes = std::max(figures.peak_live_bytes, figures.live_bytes);
      if (step != nullptr) {
        ++step->requests;
        step->bytes += event.size_bytes;
      }
      if (event.call_site != 0) {
        site_of.emplace(event.block, event.call_site);
        SiteFigures& site = figures.sites[event.call_site];
        ++site.requests;
        site.live_bytes += event.size_bytes;
        site.peak_live_bytes = std::max(site.peak_live_bytes, site.live_bytes);
      }
    } else {
      ++figures.frees;
      figures.live_bytes -= std::min(figures.live_bytes, event.size_bytes);
      if (const auto site = site_of.find(event.block); site != site_of.end()) {
        figures.sites[site->second].live_bytes -= event.size_bytes;
        site_of.erase(site);
      }
    }
    if (step != nullptr) step->peak_live_bytes = std::max(step->peak_live_bytes, figures.live_bytes);
  }
  return figures;
}

ordered_json StepTable(const TraceFigures& figures) {
  ordered_json table = ordered_json::array();
  for (const auto& [step, of_step] : figures.steps) {
    table.push_back({{"step", step},
                     {"requests", of_step.requests},
                     {"bytes", of_step.bytes},
                     {"peak_live_bytes", of_step.peak_live_bytes}});
  }
  return table;
}

// The way through the framework's allocator is the same for all: how many of the innermost frames they share, but for
// one that each keeps.
std::size_t SharedFrames(const std::vector<const std::vector<std::string>*>& sites) {
  if (sites.size() < 2) return 0;
  for (std::size_t shared = 0;; ++shared)
    for (const std::vector<std::string>* site : sites)
      if (shared + 1 >= site->size() || (*site)[shared] != (*sites.front())[shared]) return shared;
}

// "function" of "function (module+0x12)": a name says enough.
std::string ShortFrame(const std::string& frame) { return frame.substr(0, frame.rfind(" (")); }

// Says of each row where its call site lies, as far as the trace knows.
void AddPlaces(const planner::Trace& trace, const std::vector<std::uint64_t>& sites, ordered_json* table) {
  constexpr std::size_t kFramesShown = 3;
  std::vector<const std::vector<std::string>*> known;
  for (const std::uint64_t site : sites)
    if (const auto at = trace.frames.find(site); at != trace.frames.end()) known.push_back(&at->second);
  if (known.empty()) return;
  const std::size_t shared = SharedFrames(known);
  for (std::size_t i = 0; i < sites.size(); ++i) {
    ordered_json& row = (*table)[i];
    const auto at = trace.frames.find(sites[i]);
    row["place"] = nullptr;
    row["frames"] = ordered_json::array();
    if (at == trace.frames.end()) continue;
    row["frames"] = at->second;
    std::string place;
    for (std::size_t k = shared; k < std::min(shared + kFramesShown, at->second.size()); ++k)
      place += (place.empty() ? "" : " < ") + ShortFrame(at->second[k]);
    row["place"] = place;
  }
}

ordered_json CallSiteTable(const planner::Trace& trace, const TraceFigures& figures) {
  std::vector<std::pair<std::uint64_t, SiteFigures>> sites(figures.sites.begin(), figures.sites.end());
  std::sort(sites.begin(), sites.end(), [](const auto& a, const auto& b) {
    return std::pair(b.second.peak_live_bytes, a.first) < std::pair(a.second.peak_live_bytes, b.first);
  });
  if (sites.size() > kLargestCallSites) sites.resize(kLargestCallSites);
  ordered_json table = ordered_json::array();
  std::vector<std::uint64_t> shown;
  for (const auto& [site, of_site] : sites) {
    table.push_back({{"call_site", Format("%016llx", static_cast<unsigned long long>(site))},
                     {"requests", of_site.requests},
                     {"peak_live_bytes", of_site.peak_live_bytes}});
    shown.push_back(site);
  }
  AddPlaces(trace, shown, &table);
  return table;
}

std::size_t CountSlots(const planner::Plan& plan, planner::Slot::Kind kind) {
  return static_cast<std::size_t>(std::count_if(plan.iteration.begin(), plan.iteration.end(),
                                                [&](const auto& request) { return request.slot.kind == kind; }));
}

bool IsTable(const ordered_json& value) { return value.is_array() && !value.empty() && value.front().is_object(); }

std::string CellText(const std::string& key, const ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "-";
  if (value.is_number_float() && key == "fragmentation") return Format("%.2f %%", 100.0 * value.get<double>());
  if (!value.is_number_unsigned()) return value.dump();
  if (key.ends_with("bytes")) return HumanBytes(value.get<std::uint64_t>());
  return Grouped(value.get<std::uint64_t>());
}

std::string TableText(const ordered_json& rows) {
  std::vector<std::string> lines(rows.size() + 1);
  for (const auto& column : rows.front().items()) {
    if (column.value().is_array()) continue;  // for programs
    std::vector<std::string> cells{column.key()};
    for (const ordered_json& row : rows) cells.push_back(CellText(column.key(), row.at(column.key())));
    std::size_t width = 0;
    for (const std::string& cell : cells) width = std::max(width, cell.size());
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string fill(width - cells[i].size(), ' ');
      // Prose, which is the last column where there is any, begins at the left.
      lines[i] += column.key() == "place" ? "  " + cells[i] : "  " + fill + cells[i];
    }
  }
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace

void Summarise(const planner::Trace& trace, ordered_json* summary) {
  const TraceFigures figures = FiguresOf(trace);
  (*summary)["events"] = trace.events.size();
  (*summary)["allocations"] = figures.allocations;
  (*summary)["frees"] = figures.frees;
  (*summary)["allocated_bytes"] = figures.bytes;
  (*summary)["peak_live_bytes"] = figures.peak_live_bytes;
  (*summary)["live_at_end_bytes"] = figures.live_bytes;
  (*summary)["devices"] = figures.devices.size();
  (*summary)["streams"] = figures.streams.size();
  (*summary)["threads"] = figures.threads.size();
  (*summary)["call_sites"] = figures.sites.size();
  (*summary)["steps"] = StepTable(figures);
  (*summary)["largest_call_sites"] = CallSiteTable(trace, figures);
}

void Summarise(const planner::LifetimeTable& table, ordered_json* summary) {
  const std::vector<planner::Request>& requests = table.problem.requests;
  planner::Time begin = requests.empty() ? 0 : requests.front().begin;
  planner::Time end = begin;
  for (const planner::Request& request : requests) {
    begin = std::min(begin, request.begin);
    end = std::max(end, request.end);
  }
  (*summary)["requests"] = requests.size();
  (*summary)["begin"] = begin;
  (*summary)["end"] = end;
  (*summary)["peak_live_bytes"] = planner::PeakLive(table.problem);
}

void Summarise(const planner::Plan& plan, ordered_json* summary) {
  (*summary)["program"] = Format("%016llx", static_cast<unsigned long long>(plan.program));
  (*summary)["device"] = plan.device;
  (*summary)["device_ordinal"] = plan.device_ordinal;
  (*summary)["made_by_rank"] = plan.rank >= 0 ? ordered_json(plan.rank) : ordered_json(nullptr);
  (*summary)["configuration"] = Format("%016llx", static_cast<unsigned long long>(plan.configuration));
  (*summary)["beginning"] = plan.beginning.size();
  (*summary)["content"] = Format("%016llx", static_cast<unsigned long long>(runtime::ContentKey(plan)));
  (*summary)["period"] = plan.period;
  (*summary)["requests"] = plan.iteration.size();
  (*summary)["in_runs"] = CountSlots(plan, planner::Slot::Kind::kRun);
  (*summary)["in_views"] = CountSlots(plan, planner::Slot::Kind::kPaged);
  (*summary)["online"] = CountSlots(plan, planner::Slot::Kind::kNone);
  (*summary)["persistent"] = plan.persistent.size();
  (*summary)["lower_bound_bytes"] = plan.lower_bound_bytes;
  (*summary)["height_bytes"] = plan.height_bytes;
  (*summary)["pages"] = plan.page_count;
}

std::string SummaryText(const ordered_json& summary) {
  std::size_t width = 0;
  for (const auto& figure : summary.items()) {
    if (!figure.value().is_array()) width = std::max(width, figure.key().size());
  }
  std::string text;
  for (const auto& figure : summary.items()) {
    if (figure.value().is_array()) continue;
    text += figure.key() + std::string(width - figure.key().size() + 2, ' ') + CellText(figure.key(), figure.value());
    if (figure.key().ends_with("bytes") && figure.value().is_number_unsigned())
      text += "  (" + Grouped(figure.value().get<std::uint64_t>()) + " bytes)";
    text += "\n";
  }
  for (const auto& figure : summary.items()) {
    if (IsTable(figure.value())) text += "\n" + figure.key() + "\n" + TableText(figure.value());
  }
  return text;
}

}  // namespace stalloc::tools
