#include "tools/planning_input.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include "planner/lower_bound.h"
#include "planner/plan_file.h"

namespace stalloc::tools {
namespace {

using planner::TraceEvent;

std::string NothingToPlan(const planner::Trace& trace, std::optional<std::uint32_t> step) {
  if (!step) return "no event to plan";
  const auto [first, last] = std::minmax_element(trace.steps.begin(), trace.steps.end());
  return "no event belongs to step " + std::to_string(*step) + "; the steps are " + std::to_string(*first) + " to " +
         std::to_string(*last);
}

// Adds the pages that the request's slot lies on; returns the highest byte of it.
planner::Bytes TouchPages(const planner::PlannedRequest& request, std::set<std::uint64_t>* pages) {
  if (request.slot.kind == planner::Slot::Kind::kPaged) {
    pages->insert(request.slot.pages.begin(), request.slot.pages.end());
    const auto highest = std::max_element(request.slot.pages.begin(), request.slot.pages.end());
    return (planner::Bytes{*highest} + 1) * planner::kPageBytes;
  }
  const planner::Bytes end = request.slot.offset_bytes + request.size_bytes;
  const std::uint64_t last = (end - 1) / planner::kPageBytes;
  for (std::uint64_t page = request.slot.offset_bytes / planner::kPageBytes; page <= last; ++page) pages->insert(page);
  return end;
}

}  // namespace

PlanningInput PlanningInputOf(const std::string& path, const planner::Trace& trace, std::optional<std::uint32_t> step) {
  if (step && trace.steps.empty()) {
    throw Failure(ExitCode::kUsage, path + ": --step: this trace names no steps, and nothing repeats in it");
  }
  const std::optional<planner::Window> window = planner::WindowOfStep(trace, step);
  if (!window) throw Failure(step ? ExitCode::kUsage : ExitCode::kBadInput, path + ": " + NothingToPlan(trace, step));

  PlanningInput input;
  input.from_trace = true;
  if (!trace.steps.empty()) input.step = trace.steps[window->first];
  planner::WindowProblem problem = planner::ProblemOfWindow(trace.events, *window);
  input.problem = std::move(problem.problem);
  std::unordered_map<std::uint64_t, std::uint64_t> call_site_of;
  for (const TraceEvent& event : trace.events) {
    if (event.op == TraceEvent::Op::kAllocate) call_site_of.emplace(event.block, event.call_site);
  }
  for (const std::uint64_t block : problem.blocks) {
    input.ids.push_back(std::to_string(block));
    input.call_sites.push_back(call_site_of[block]);
  }
  return input;
}

PlanningInput LoadPlanningInput(const std::string& path, std::optional<std::uint32_t> step, TraceEnd end) {
  LoadedFile file = Load(path, end);
  PlanningInput input;
  if (const auto* trace = std::get_if<planner::Trace>(&file.content)) {
    input = PlanningInputOf(path, *trace, step);
  } else if (auto* table = std::get_if<planner::LifetimeTable>(&file.content)) {
    if (step) throw Failure(ExitCode::kUsage, path + ": --step: a table of lifetimes has no steps");
    input.problem = std::move(table->problem);
    input.ids = std::move(table->ids);
  } else {
    throw Failure(ExitCode::kBadInput,
                  path + ": holds " + file.WithArticle() + " and no requests; stalloc show prints it");
  }
  input.format = file.format;
  return input;
}

void WritePlan(const std::string& path, const PlanningInput& input, const std::vector<planner::Slot>& slots,
               bool force) {
  const std::vector<planner::Request>& requests = input.problem.requests;
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return requests[a].begin < requests[b].begin; });

  planner::Plan plan;
  plan.lower_bound_bytes = planner::LowerBound(input.problem);
  std::set<std::uint64_t> pages;
  std::map<std::pair<std::uint64_t, planner::Bytes>, std::uint32_t> seen;
  const planner::Time first = order.empty() ? 0 : requests[order.front()].begin;
  for (const std::size_t i : order) {
    planner::PlannedRequest request;
    request.call_site = input.call_sites.empty() ? 0 : input.call_sites[i];
    request.size_bytes = requests[i].size_bytes;
    request.occurrence = seen[{request.call_site, request.size_bytes}]++;
    request.stream = requests[i].stream;
    request.begin = requests[i].begin - first;
    request.end = requests[i].end - first;
    request.slot = slots[i];
    plan.period = std::max(plan.period, request.end);
    const planner::Bytes top = TouchPages(request, &pages);
    plan.height_bytes = std::max(plan.height_bytes, top);
    plan.iteration.push_back(std::move(request));
  }
  plan.page_count = pages.size();
  ThrowIf(planner::WritePlanFile(path, plan, force));
}

}  // namespace stalloc::tools
