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

TEST_F(Doctor, AFrameworkThatTheUserHasSetOtherwiseIsAProblem) {
  const std::string python = Python(R"({"torch": "2.9.0"})");
  const std::string other = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
  const Ended told = RunStalloc({"doctor", "--json", "--", python}, {kSimulated, other});
  EXPECT_EQ(told.exit_code, 4);
  EXPECT_EQ(LevelOf(told, "torch"), "problem");
  const Ended left = RunStalloc({"doctor", "--json", "--", python}, {kSimulated});
  EXPECT_EQ(left.exit_code, 0) << left.output;
  EXPECT_EQ(LevelOf(left, "torch"), "ok");
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
