// What a trace comes to: totals, the peak, and the same by training step and by call site. Any thread; may allocate.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "planner/trace_problem.h"

namespace stalloc::tools {

struct StepFigures {
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;
  std::uint64_t peak_live_bytes = 0;
};

struct SiteFigures {
  std::uint64_t requests = 0;
  std::uint64_t live_bytes = 0;       // at the end
  std::uint64_t peak_live_bytes = 0;  // of this call site, whenever that was
  std::uint64_t at_peak_bytes = 0;    // live when the whole trace was at its peak
};

struct TraceFigures {
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t bytes = 0;
  std::uint64_t live_bytes = 0;  // at the end
  std::uint64_t peak_live_bytes = 0;
  std::size_t peak_event = 0;  // index of the last allocation that reached the peak: iterations repeat it
  std::set<std::uint32_t> streams, threads;
  std::set<unsigned> devices;
  std::map<std::uint32_t, StepFigures> steps;
  std::unordered_map<std::uint64_t, SiteFigures> sites;  // 0: requests whose call site was not taken
};

TraceFigures FiguresOf(const planner::Trace& trace);

// The call sites with most bytes at the peak, then with the highest peak of their own; without site 0. `top` 0: all.
std::vector<std::uint64_t> LargestCallSites(const TraceFigures& figures, std::size_t top);

// "function" of "function (module+0x12)": a name says enough. A line of a source file says more: it stays.
std::string ShortFrame(const std::string& frame);

struct CallSiteName {
  std::vector<std::string> frames;  // innermost first; empty: not in the trace
  std::string place;                // the frames that tell it from the others
};

// One for each of `sites`; empty if the trace has no frames for any of them.
std::vector<CallSiteName> NamesOf(const planner::Trace& trace, const std::vector<std::uint64_t>& sites);

}  // namespace stalloc::tools
