#include "command.h"

#include <fstream>
#include <sstream>

#include "tools/child_process.h"
#include "tools/environment.h"

namespace stalloc::tools {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

}  // namespace

Ended RunWords(const std::vector<std::string>& words, const std::vector<std::string>& environment) {
  std::vector<std::string> variables = CurrentEnvironment();
  for (const std::string& variable : environment) {
    const std::size_t equals = variable.find('=');
    SetVariable(&variables, variable.substr(0, equals), variable.substr(equals + 1));
  }
  const ChildOutput child = CaptureChild(words, variables);
  if (!child.started) return {-1, "", "cannot start " + words.front()};
  return {child.exit_code, child.output, child.errors};
}

Ended RunStalloc(std::vector<std::string> arguments, const std::vector<std::string>& environment) {
  arguments.insert(arguments.begin(), STALLOC_COMMAND);
  return RunWords(arguments, environment);
}

std::string CommandTest::Write(const std::string& name, const std::string& content) const {
  std::ofstream(Path(name), std::ios::binary) << content;
  return Path(name);
}

std::string CommandTest::Read(const std::string& path) { return ReadFile(path); }

std::string SmallLifetimes() {
  return "id,lower,upper,size\n"
         "a,0,4,10\n"
         "b,0,2,20\n"
         "c,2,6,30\n"
         "d,4,8,10\n"
         "e,6,8,25\n"
         "f,1,2,10\n";
}

std::string SmallTraining(int steps, int layers) {
  constexpr int kMiB = 1 << 20;
  std::string csv = "op,id,bytes,stream,step\n";
  int next_id = 0;
  const auto allocate = [&](int bytes, int step) {
    csv += "a," + std::to_string(next_id) + "," + std::to_string(bytes) + ",0," + std::to_string(step) + "\n";
    return std::pair(next_id++, bytes);
  };
  const auto release = [&](std::pair<int, int> block, int step) {
    csv +=
        "f," + std::to_string(block.first) + "," + std::to_string(block.second) + ",0," + std::to_string(step) + "\n";
  };
  for (int step = 1; step <= steps; ++step) {
    std::vector<std::pair<int, int>> activations;
    for (int layer = 0; layer < layers; ++layer) {
      const auto workspace = allocate((3 + layer % 3) * kMiB + 1000, step);
      activations.push_back(allocate((4 + layer % 2) * kMiB, step));
      release(workspace, step);
    }
    while (!activations.empty()) {
      const auto gradient = allocate(6 * kMiB, step);
      release(activations.back(), step);
      activations.pop_back();
      release(gradient, step);
    }
  }
  return csv;
}

}  // namespace stalloc::tools
