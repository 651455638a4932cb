#include "tools/summary.h"

#include <algorithm>
#include <vector>

#include "planner/lower_bound.h"
#include "runtime/learning/plan_content.h"
#include "tools/text.h"
#include "tools/trace_figures.h"

namespace stalloc::tools {
namespace {

using nlohmann::ordered_json;

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

ordered_json CallSiteTable(const planner::Trace& trace, const TraceFigures& figures, std::size_t top) {
  const std::vector<std::uint64_t> sites = LargestCallSites(figures, top);
  const std::vector<CallSiteName> names = NamesOf(trace, sites);
  ordered_json table = ordered_json::array();
  for (std::size_t i = 0; i < sites.size(); ++i) {
    const SiteFigures& of_site = figures.sites.at(sites[i]);
    ordered_json row = {{"at_peak_bytes", of_site.at_peak_bytes},
                        {"peak_live_bytes", of_site.peak_live_bytes},
                        {"requests", of_site.requests},
                        {"call_site", Format("%016llx", static_cast<unsigned long long>(sites[i]))}};
    if (!names.empty()) {
      row["place"] = names[i].frames.empty() ? ordered_json(nullptr) : ordered_json(names[i].place);
      row["frames"] = names[i].frames;
    }
    table.push_back(std::move(row));
  }
  return table;
}

std::size_t CountSlots(const planner::Plan& plan, planner::Slot::Kind kind) {
  return static_cast<std::size_t>(std::count_if(plan.iteration.begin(), plan.iteration.end(),
                                                [&](const auto& request) { return request.slot.kind == kind; }));
}

}  // namespace

void Summarise(const planner::Trace& trace, const SummaryOptions& options, ordered_json* summary) {
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
  (*summary)["call_sites"] = figures.sites.size() - figures.sites.count(0);
  (*summary)["largest_call_sites"] = CallSiteTable(trace, figures, options.top);
  (*summary)["steps"] = StepTable(figures);
}

void Summarise(const planner::LifetimeTable& table, const SummaryOptions& /*options*/, ordered_json* summary) {
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

void Summarise(const planner::Plan& plan, const SummaryOptions& /*options*/, ordered_json* summary) {
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

}  // namespace stalloc::tools
