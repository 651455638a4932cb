// Files that were asked for and that nobody writes: the process that the user has started says so, once.
#include <algorithm>
#include <filesystem>

#include "command.h"

namespace stalloc::tools {
namespace {

// The command itself is a program that never touches CUDA; `stalloc run` is one that starts another.
class AskedFiles : public PreloadedTest {
 protected:
  static Ended RunPreloaded(const std::vector<std::string>& words, std::vector<std::string> settings) {
    settings.insert(settings.end(), {"LD_PRELOAD=" STALLOC_BUILD_DIR "/lib/libstalloc.so", "STALLOC_PLAN_CACHE=off",
                                     "STALLOC_SUMMARY=0", std::string("LD_LIBRARY_PATH=") + STALLOC_SIMCUDA_LIBRARIES});
    return RunWords(words, settings);
  }
  static auto Lines(const Ended& ended) { return std::count(ended.errors.begin(), ended.errors.end(), '\n'); }
};

TEST_F(AskedFiles, AreNamedWhereNothingWasServed) {
  const Ended ended = RunPreloaded({STALLOC_COMMAND, "--version"},
                                   {"STALLOC_STATS=" + Path("s.json"), "STALLOC_TRACE=" + Path("%p.trace")});
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_EQ(Lines(ended), 1) << ended.errors;
  EXPECT_NE(ended.errors.find(Path("s.json") + " (STALLOC_STATS), " + Path("%p.trace") + " (STALLOC_TRACE)"),
            std::string::npos)
      << ended.errors;
  EXPECT_FALSE(std::filesystem::exists(Path("s.json")));
}

TEST_F(AskedFiles, NothingIsSaidWhereNoneWasAskedForOrSilenceWas) {
  EXPECT_EQ(RunPreloaded({STALLOC_COMMAND, "--version"}, {}).errors, "");
  const std::string asked = "STALLOC_STATS=" + Path("s.json");
  EXPECT_EQ(RunPreloaded({STALLOC_COMMAND, "--version"}, {asked, "STALLOC_LOG=error"}).errors, "");
  EXPECT_EQ(RunPreloaded({STALLOC_COMMAND, "--version"}, {asked, "STALLOC_DISABLE=1"}).errors, "");
}

TEST_F(AskedFiles, AreTheAffairOfTheProcessThatWasStartedFirst) {
  const Ended ended =
      RunPreloaded({STALLOC_COMMAND, "run", "--", STALLOC_COMMAND, "--version"}, {"STALLOC_STATS=" + Path("s.json")});
  EXPECT_EQ(Lines(ended), 1) << ended.errors;
}

TEST_F(AskedFiles, NothingIsSaidWhereAChildHasWrittenThem) {
  const Ended ended = RunPreloaded({STALLOC_COMMAND, "run", "--", STALLOC_SIMTRAINER, "3"},
                                   {"STALLOC_STATS=" + Path("%p[%r].json"), "STALLOC_TRACE=" + Path("t.trace")});
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_EQ(ended.errors, "");
  EXPECT_TRUE(std::filesystem::exists(Path("t.trace")));
}

}  // namespace
}  // namespace stalloc::tools
