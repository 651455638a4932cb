// The command line as such: help, versions, mistakes, and files that are not what they say.

#include "command.h"

namespace stalloc::tools {
namespace {

class Usage : public CommandTest {};

TEST_F(Usage, EveryVerbHasHelpWithAnExample) {
  EXPECT_EQ(RunStalloc({"--help"}).exit_code, 0);
  EXPECT_EQ(RunStalloc({"--version"}).exit_code, 0);
  for (const char* verb : {"run", "plan", "show", "replay", "doctor"}) {
    const Ended ended = RunStalloc({verb, "--help"});
    EXPECT_EQ(ended.exit_code, 0) << verb;
    EXPECT_NE(ended.output.find(std::string("Example: stalloc ") + verb), std::string::npos) << verb;
    EXPECT_EQ(ended.errors, "") << verb;
  }
}

TEST_F(Usage, MistakesAreExitCodeTwo) {
  const std::string input = Write("small.csv", SmallLifetimes());
  const std::vector<std::vector<std::string>> mistakes = {
      {},
      {"dance"},
      {"plan"},
      {"plan", input, "--capacity", "-5"},
      {"plan", input, "--capacity", "many"},
      {"plan", input, "--alignment", "3"},
      {"plan", input, "--deadline", "-1"},
      {"plan", input, "--step", "1"},
      {"plan", input, input},
      {"show"},
      {"show", input, "--loudly"},
      {"run"},
      {"run", "--"},
      {"run", "--growth", "99", "--", "true"},
      {"run", "--no-such-option=3", "--", "true"},
      {"run", "--memory-limit=abc", "--", "true"},
      {"doctor", "--no-such-option"},
      {"replay"},
      {"replay", input, "--allocator", "magic"},
  };
  for (const auto& mistake : mistakes) {
    const Ended ended = RunStalloc(mistake);
    EXPECT_EQ(ended.exit_code, 2) << ::testing::PrintToString(mistake) << ended.errors;
    EXPECT_TRUE(ended.errors.starts_with("stalloc: error: ")) << ended.errors;
    EXPECT_LT(ended.errors.size(), 200u) << ended.errors;
    EXPECT_EQ(ended.output, "") << ::testing::PrintToString(mistake);
  }
}

// tools/quickstart and tools/setup: both install and build things, so that a mistaken option must not start them.
TEST_F(Usage, ScriptsHaveHelpAndKnowTheirOptions) {
  for (const std::string script : {"quickstart", "setup"}) {
    const Ended help = RunWords({STALLOC_SOURCE_DIR "/tools/" + script, "--help"});
    EXPECT_EQ(help.exit_code, 0) << script;
    EXPECT_NE(help.output.find("\n  tools/" + script + " "), std::string::npos) << help.output;
    const Ended mistaken = RunWords({STALLOC_SOURCE_DIR "/tools/" + script, "--no-such-option"});
    EXPECT_EQ(mistaken.exit_code, 2) << script;
    EXPECT_NE(mistaken.errors.find("--no-such-option"), std::string::npos) << mistaken.errors;
    EXPECT_EQ(mistaken.output, "") << script;
  }
}

// Every verb that reads a file refuses what it cannot trust: exit code 3, the file's name, nothing on standard output.
TEST_F(Usage, HostileFilesAreRefusedByName) {
  ASSERT_EQ(RunStalloc({"plan", Write("good.csv", SmallLifetimes()), "-o", Path("good.plan")}).exit_code, 0);
  const std::string good_plan = Read(Path("good.plan"));
  std::string flipped = good_plan;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 0x10);
  const std::string header = "id,lower,upper,size\n";
  const std::string events = "op,id,bytes,stream,step\n";
  const std::vector<std::pair<std::string, std::string>> files = {
      {"empty", ""},
      {"zeros", std::string(4096, '\0')},
      {"foreign",
       "\x7f"
       "ELF\x02\x01\x01"},
      {"prose.csv", "It was the best of times, it was the worst of times.\n"},
      {"column.csv", "id,lower,upper\n1,0,1\n"},
      {"twice.csv", header + "1,0,1,8\n1,0,1,8\n"},
      {"backwards.csv", header + "1,5,2,8\n"},
      {"zero.csv", header + "1,0,1,0\n"},
      {"negative.csv", header + "1,0,1,-8\n"},
      {"huge.csv", header + "1,0,1,99999999999999999999999\n"},
      {"overflow.csv", header + "1,0,1,18446744073709551615\n2,0,1,18446744073709551615\n"},
      {"text.csv", header + "1,0,1,eight\n"},
      {"op.csv", events + "x,1,8,0,1\n"},
      {"free.csv", events + "f,1,8,0,1\n"},
      {"double.csv", events + "a,1,8,0,1\nf,1,8,0,1\nf,1,8,0,1\n"},
      {"live.csv", events + "a,1,8,0,1\na,1,8,0,1\n"},
      {"cut.plan", good_plan.substr(0, good_plan.size() - 7)},
      {"head.plan", good_plan.substr(0, 8)},
      {"flipped.plan", flipped},
      {"magic.trace", "stallocT" + std::string(40, '\xff')},
      {"cut.trace", "stallocT"},
      {"cut.csv.gz", std::string("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x03", 11)},
  };
  for (const auto& [name, content] : files) {
    const std::string path = Write(name, content);
    for (const char* verb : {"show", "plan", "replay"}) {
      const Ended ended = RunStalloc({verb, path});
      EXPECT_EQ(ended.exit_code, 3) << verb << " " << name << ": " << ended.errors;
      EXPECT_NE(ended.errors.find(name), std::string::npos) << verb << " " << name << ": " << ended.errors;
      EXPECT_EQ(ended.output, "") << verb << " " << name;
    }
  }
}

// What was asked for is named as it was written, with what would do.
TEST_F(Usage, AMistakeIsNamedAsItWasWritten) {
  const std::string input = Write("small.csv", SmallLifetimes());
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{"dance"}, "there is no command dance"},
      {{"run", "--memory-limit=abc", "--", "true"}, "--memory-limit=abc: it must be SIZE|PERCENT%"},
      {{"doctor", "--no-such-option"}, "doctor has no option --no-such-option"},
      {{"plan", input, "--deadline", "soon"}, "soon is no number of seconds"},
      {{"plan", Write("stats.json", R"({"format": "stalloc-statistics", "version": 1, "process": {}, "total": {}, )"
                                    R"("devices": []})")},
       "holds statistics and no requests"},
  };
  for (const auto& [words, expected] : mistakes)
    EXPECT_NE(RunStalloc(words).errors.find(expected), std::string::npos) << RunStalloc(words).errors;
}

TEST_F(Usage, TheLineOfAMistakeIsNamed) {
  const Ended ended = RunStalloc({"plan", Write("bad.csv", "id,lower,upper,size\n1,0,1,8\n2,3,3,8\n")});
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_NE(ended.errors.find("line 3"), std::string::npos) << ended.errors;
}

TEST_F(Usage, OutputThatCannotBeWrittenIsAnError) {
  const std::string input = Write("small.csv", SmallLifetimes());
  const Ended ended = RunWords({"sh", "-c", std::string(STALLOC_COMMAND) + " show " + input + " > /dev/full"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_NE(ended.errors, "");
}

}  // namespace
}  // namespace stalloc::tools
