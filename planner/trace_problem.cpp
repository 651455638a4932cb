#include "planner/trace_problem.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace stalloc::planner {

WindowProblem ProblemOfWindow(std::span<const TraceEvent> events, Window window, std::uint8_t device) {
  WindowProblem result;
  window.last = std::min(window.last, events.size());
  window.first = std::min(window.first, window.last);
  std::unordered_map<std::uint64_t, std::size_t> live;  // block -> index into requests
  const Time open = static_cast<Time>(window.last - window.first);
  for (std::size_t k = 0; k < window.last; ++k) {
    const TraceEvent& event = events[k];
    if (event.device != device) continue;
    const Time now = k < window.first ? 0 : static_cast<Time>(k - window.first);
    if (event.op == TraceEvent::Op::kAllocate) {
      if (event.size_bytes == 0) continue;
      live[event.block] = result.blocks.size();
      result.problem.requests.push_back({event.size_bytes, now, open, event.stream});
      result.blocks.push_back(event.block);
    } else if (const auto found = live.find(event.block); found != live.end()) {
      result.problem.requests[found->second].end = now;
      live.erase(found);
    }
  }
  // Blocks that were gone when the window began (or went with its first event) are not part of it.
  std::size_t kept = 0;
  for (std::size_t i = 0; i < result.blocks.size(); ++i) {
    if (result.problem.requests[i].begin >= result.problem.requests[i].end) continue;
    result.problem.requests[kept] = result.problem.requests[i];
    result.blocks[kept] = result.blocks[i];
    ++kept;
  }
  result.problem.requests.resize(kept);
  result.blocks.resize(kept);
  return result;
}

std::optional<Window> WindowOfStep(const Trace& trace, std::optional<std::uint32_t> step) {
  if (trace.events.empty()) return std::nullopt;
  if (trace.steps.empty()) {
    if (step) return std::nullopt;
    return Window{0, trace.events.size()};
  }
  std::map<std::uint32_t, Window> windows;
  for (std::size_t k = 0; k < trace.steps.size(); ++k) {
    const auto [at, fresh] = windows.try_emplace(trace.steps[k], Window{k, k + 1});
    at->second.last = k + 1;
  }
  if (step) {
    const auto found = windows.find(*step);
    if (found == windows.end()) return std::nullopt;
    return found->second;
  }
  const auto last = std::prev(windows.end());
  if (last == windows.begin()) return last->second;
  // The first step also sets up what stays; compare with the steps after it where there are any.
  const auto before = std::prev(last);
  std::size_t longest = 0;
  const auto from = before == windows.begin() ? windows.begin() : std::next(windows.begin());
  for (auto at = from; at != last; ++at) longest = std::max(longest, at->second.last - at->second.first);
  const std::size_t length = last->second.last - last->second.first;
  return 2 * length >= longest ? last->second : before->second;
}

}  // namespace stalloc::planner
