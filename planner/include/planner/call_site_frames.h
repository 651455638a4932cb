// Where the call sites of a trace lie in the program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stalloc::planner {

struct CallSiteFrames {
  std::uint64_t call_site = 0;      // TraceEvent::call_site
  std::vector<std::string> frames;  // as a person reads them, innermost first
};

}  // namespace stalloc::planner
