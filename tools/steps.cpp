#include "tools/steps.h"

#include <algorithm>
#include <vector>

#include "runtime/recurrence.h"

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
  runtime::IterationFinder finder;
  finder.Observe(ObservationsOf(*trace));
  const std::optional<runtime::Pattern> pattern = finder.Find();
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
