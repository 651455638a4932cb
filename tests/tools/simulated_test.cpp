// stalloc run --simulated: what the command and its children are given, and that nobody else is.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "command.h"

namespace stalloc::tools {
namespace {

using nlohmann::json;

class RunSimulated : public PreloadedTest {
 protected:
  static Ended Run(std::vector<std::string> arguments, const std::vector<std::string>& environment = {}) {
    arguments.insert(arguments.begin(), {"run", "--simulated", "--plan-cache=off"});
    return RunStalloc(arguments, environment);
  }
  // The one report that a run of simtrainer has left.
  json Report() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(Path("")))
      if (entry.path().extension() == ".json") files.push_back(entry.path().string());
    EXPECT_EQ(files.size(), 1u) << "a process that uses no CUDA reports nothing";
    return files.empty() ? json() : json::parse(Read(files.front()));
  }
};

TEST_F(RunSimulated, TheCommandRunsWithoutAGpu) {
  const Ended ended = Run({"--memory=20GiB", "--devices=2", "--", "sh", "-c", std::string(STALLOC_SIMTRAINER) + " 3"},
                          {"SIMCUDA_REPORT=" + Path("device-%p.json"), "LD_LIBRARY_PATH="});
  ASSERT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_NE(ended.errors.find("peak live"), std::string::npos) << ended.errors;
  const json report = Report();
  ASSERT_EQ(report.at("devices").size(), 2u);
  EXPECT_EQ(report["devices"][0].at("memory_bytes"), std::uint64_t{20} << 30);
  EXPECT_GT(report["devices"][0].at("peak_physical_bytes"), std::uint64_t{1} << 30);
  EXPECT_EQ(report["devices"][0].at("refused_requests"), 0);
  EXPECT_EQ(report["devices"][1].at("peak_physical_bytes"), 0);
}

TEST_F(RunSimulated, WhatTheDeviceRefusesIsReported) {
  const Ended ended = Run({"--memory=2GiB", "--", STALLOC_SIMTRAINER, "3"},
                          {"SIMCUDA_REPORT=" + Path("device-%p.json"), "STALLOC_LOG=off"});
  EXPECT_EQ(ended.exit_code, 1) << ended.errors;
  EXPECT_GT(Report().at("devices")[0].at("refused_requests"), 0);
}

TEST_F(RunSimulated, EverythingIsInTheEnvironmentOfTheCommand) {
  const Ended ended = Run({"--world-size=8", "--rank=3", "--steps=5", "--device=h100", "--", "env"},
                          {"LD_PRELOAD=libc.so.6", "PYTHONPATH=/mine", "LD_LIBRARY_PATH=/libraries"});
  ASSERT_EQ(ended.exit_code, 0) << ended.errors;
  for (const char* line : {"STALLOC_SIMULATED=1\n", "STALLOC_SIMULATED_WORLD_SIZE=8\n", "STALLOC_SIMULATED_RANK=3\n",
                           "STALLOC_SIMULATED_STEPS=5\n", "SIMCUDA_DEVICE=h100\n", "SIMCUDA_DEVICES=1\n"})
    EXPECT_NE(("\n" + ended.output).find(std::string("\n") + line), std::string::npos) << line << ended.output;
  std::istringstream lines(ended.output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("LD_PRELOAD=")) {
      EXPECT_LT(line.find("libstalloc.so"), line.find("libcudart.so.13")) << line;
      EXPECT_LT(line.find("libcudart.so.13"), line.find("libcuda.so.1")) << line;
      EXPECT_TRUE(line.ends_with(":libc.so.6")) << line;
    }
    EXPECT_EQ(line.starts_with("PYTHONPATH="), line.ends_with("/python/simulated:/mine")) << line;
    EXPECT_EQ(line.starts_with("LD_LIBRARY_PATH="), line.ends_with(":/libraries")) << line;
  }
  EXPECT_EQ(ended.errors.find("there is no setting"), std::string::npos) << ended.errors;
}

TEST_F(RunSimulated, WhatMakesNoSenseIsRefused) {
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"run", "--memory=8GiB", "--", "true"},  // without --simulated
        {"run", "--simulated", "--world-size=4", "--rank=4", "--", "true"},
        {"run", "--simulated", "--rank=1", "--", "true"},
        {"run", "--simulated", "--device=h1000", "--", "true"},
        {"run", "--simulated", "--devices=0", "--", "true"},
        {"run", "--simulated", "--memory=much", "--", "true"}}) {
    const Ended ended = RunStalloc(wrong);
    EXPECT_EQ(ended.exit_code, 2) << ::testing::PrintToString(wrong) << ended.errors;
    EXPECT_NE(ended.errors, "");
  }
}

}  // namespace
}  // namespace stalloc::tools
