// RunProgram: a test program as a child process, with or without a preload, and what came of it.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace stalloc::interpose {

struct Outcome {
  int exit_code = -1;  // 128 + the signal's number if one ended it
  std::string output;  // standard output and error together
  // What the allocator's double wrote down: 0 for what it was not asked.
  std::map<std::string, long> counts;

  long Count(const std::string& name) const {
    const auto found = counts.find(name);
    return found != counts.end() ? found->second : 0;
  }
};

// Environment in which programs find the fake libraries; `preload` is added with the probe (the hooks over the double).
using Environment = std::map<std::string, std::string>;
Environment Plain();
Environment Preloaded();
// In which they find the simulated device; and libstalloc.so is preloaded too.
Environment Simulated();
Environment Served();

// `command` is looked up on PATH; programs of this folder are named by Program("name").
Outcome RunProgram(const std::vector<std::string>& command, Environment environment);
std::string Program(const std::string& name);

}  // namespace stalloc::interpose
