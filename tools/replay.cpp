#include "tools/replay.h"

#include <algorithm>
#include <chrono>

#include "tools/step_counter.h"

namespace stalloc::tools {

using planner::TraceEvent;

double ReplayResult::Fragmentation() const {
  if (peak_reserved_bytes == 0) return 0;
  return 1.0 - static_cast<double>(peak_live_bytes) / static_cast<double>(peak_reserved_bytes);
}

planner::Trace OneDevice(const planner::Trace& trace) {
  planner::Trace result;
  if (trace.events.empty()) return result;
  result.frames = trace.frames;
  const auto device = trace.events.front().device;
  auto order = trace.order.begin();
  for (std::size_t k = 0; k < trace.events.size(); ++k) {
    for (; order != trace.order.end() && order->before <= k; ++order)
      if (order->event.device == device) result.order.push_back({result.events.size(), order->event});
    const TraceEvent& event = trace.events[k];
    if (event.device != device || event.size_bytes == 0) continue;
    result.events.push_back(event);
    if (!trace.steps.empty()) result.steps.push_back(trace.steps[k]);
  }
  return result;
}

ReplayResult ReplayModel(const planner::Trace& trace, const std::string& name, AllocatorModel& model,
                         const LevelSink& levels) {
  const auto start = std::chrono::steady_clock::now();
  ReplayResult result;
  result.allocator = name;
  StepCounter by_step(trace);
  std::uint64_t live_bytes = 0;
  for (std::size_t k = 0; k < trace.events.size(); ++k) {
    const TraceEvent& event = trace.events[k];
    if (event.op == TraceEvent::Op::kAllocate) {
      model.Allocate(event.block, event.size_bytes, event.stream);
      live_bytes += event.size_bytes;
      ++result.online;
    } else {
      model.Free(event.block);
      live_bytes -= event.size_bytes;
    }
    result.peak_live_bytes = std::max(result.peak_live_bytes, live_bytes);
    result.peak_reserved_bytes = std::max(result.peak_reserved_bytes, model.reserved_bytes());
    by_step.Count(k, model.map_calls());
    if (levels) levels(k, live_bytes, model.reserved_bytes());
  }
  result.map_calls = model.map_calls();
  result.map_calls_by_step = by_step.Take();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace stalloc::tools
