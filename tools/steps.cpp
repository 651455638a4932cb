#include "tools/steps.h"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "runtime/recurrence/recurrence.h"

namespace stalloc::tools {
namespace {

using planner::TraceEvent;
using runtime::Observation;

std::vector<Observation> ObservationsOf(const planner::Trace& trace) {
  std::vector<Observation> observations;
  observations.reserve(trace.events.size());
  for (const TraceEvent& event : trace.events) {
    observations.push_back({event.op == TraceEvent::Op::kAllocate ? Observation::Op::kAllocate : Observation::Op::kFree,
                            event.stream, event.block, event.size_bytes, event.call_site});
  }
  return observations;
}

}  // namespace

void LabelSteps(planner::Trace* trace) {
  if (!trace->steps.empty()) return;
  // Looked for again and again, as in a running program, and the last answer counts: a look at the very end alone may
  // fall on the program's tidying up, or on an iteration that another thread's requests ran through.
  runtime::IterationFinder finder;
  const std::vector<Observation> observations = ObservationsOf(*trace);
  const std::size_t between_looks = std::max<std::size_t>(1000, observations.size() / 40);
  std::optional<runtime::Pattern> pattern;
  for (std::size_t k = 0; k < observations.size(); k += between_looks) {
    finder.Observe(std::span(observations).subspan(k, std::min(between_looks, observations.size() - k)));
    if (std::optional<runtime::Pattern> found = finder.Find()) pattern = std::move(found);
  }
  if (!pattern || pattern->period <= 0) return;
  const auto start = std::find_if(trace->events.begin(), trace->events.end(), [&](const TraceEvent& event) {
    return event.op == TraceEvent::Op::kAllocate && event.block == pattern->first_block;
  });
  if (start == trace->events.end()) return;

  const auto period = static_cast<std::size_t>(pattern->period);
  const auto first = static_cast<std::size_t>(start - trace->events.begin()) % period;
  trace->steps.resize(trace->events.size());
  for (std::size_t k = first; k < trace->events.size(); ++k) {
    trace->steps[k] = static_cast<std::uint32_t>((k - first) / period + 1);
  }
}

}  // namespace stalloc::tools
