// stalloc doctor: what it finds decides its exit code.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "command.h"

namespace stalloc::tools {
namespace {

using nlohmann::json;

class Doctor : public PreloadedTest {
 protected:
  static inline const std::string kSimulated = std::string("LD_LIBRARY_PATH=") + STALLOC_SIMCUDA_LIBRARIES;

  // A python3 that has nothing but `packages`, whatever this machine has.
  std::string Python(const std::string& packages) const {
    std::string path = Write("python3", "#!/bin/sh\necho '" + packages + "'\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }

  static std::string LevelOf(const Ended& ended, const std::string& subject) {
    const json answer = json::parse(ended.output);
    for (const json& finding : answer.at("findings")) {
      // Whatever is not well comes with what to do about it.
      EXPECT_EQ(finding.at("level") == "ok", !finding.contains("next")) << finding;
      if (finding.at("subject") == subject) return finding.at("level");
    }
    return "absent";
  }
};

TEST_F(Doctor, OverTheSimulatedDriverEveryRouteIsServed) {
  const Ended ended = RunStalloc({"doctor", "--json", "--", Python("{}"), "train.py"}, {kSimulated});
  EXPECT_EQ(ended.exit_code, 0) << ended.output << ended.errors;
  EXPECT_EQ(json::parse(ended.output).at("served"), true);
  for (const char* subject : {"library", "driver", "device 0", "dlsym", "cuGetProcAddress", "libcudart", "command"}) {
    EXPECT_EQ(LevelOf(ended, subject), "ok") << subject;
  }
}

TEST_F(Doctor, TurnedOffIsAProblem) {
  const Ended ended = RunStalloc({"doctor", "--json", "--", Python("{}")}, {kSimulated, "STALLOC_DISABLE=1"});
  EXPECT_EQ(ended.exit_code, 4);
  EXPECT_EQ(LevelOf(ended, "setting"), "note");
}

TEST_F(Doctor, AFrameworkThatKeepsItsOwnAllocatorIsAProblem) {
  const auto run = [&](const std::string& backend) {
    const std::string python = Python(R"({"torch": "2.9.0", "backend of torch": ")" + backend + "\"}");
    return RunStalloc({"doctor", "--json", "--", python}, {kSimulated});
  };
  const Ended own = run("native");
  EXPECT_EQ(own.exit_code, 4);
  EXPECT_EQ(LevelOf(own, "torch"), "problem");
  const Ended served = run("cudaMallocAsync");
  EXPECT_EQ(served.exit_code, 0) << served.output;
  EXPECT_EQ(LevelOf(served, "torch"), "ok");
}

// Frameworks are asked in a process that has the library, as the command would have it.
TEST_F(Doctor, FrameworksAreAskedUnderThePreload) {
  const std::string python = Write("python3", "#!/bin/sh\necho \"{\\\"torch\\\": \\\"$LD_PRELOAD\\\"}\"\n");
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  const Ended ended = RunStalloc({"doctor", "--json", "--", python}, {kSimulated});
  EXPECT_NE(ended.output.find("libstalloc.so"), std::string::npos) << ended.output;
}

TEST_F(Doctor, ACommandThatHasNothingToDoWithCudaIsSaidToBeSuch) {
  const Ended ended = RunStalloc({"doctor", "--json", "--", "/bin/ls"}, {kSimulated});
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_EQ(LevelOf(ended, "command"), "note");
  EXPECT_EQ(LevelOf(ended, "frameworks"), "absent");
}

TEST_F(Doctor, ACommandThatCannotBePreloadedIntoIsAProblem) {
  const std::string text = Write("text", "#!/nowhere/interpreter\n");
  for (const std::string& command : {text, std::string("no-such-command-anywhere"), Write("empty", "")}) {
    const Ended ended = RunStalloc({"doctor", "--json", "--", command}, {kSimulated});
    EXPECT_EQ(ended.exit_code, 4) << command;
    EXPECT_EQ(LevelOf(ended, "command"), "problem") << command;
  }
}

TEST_F(Doctor, ALibraryThatIsNoneIsAProblem) {
  const Ended ended = RunStalloc({"doctor", "--library", Write("libstalloc.so", "text"), "--json"}, {kSimulated});
  EXPECT_EQ(ended.exit_code, 4);
  EXPECT_EQ(LevelOf(ended, "library"), "problem");
}

}  // namespace
}  // namespace stalloc::tools
