// The command line as such: help, versions, mistakes, and files that are not what they say.
#include <zlib.h>

#include <algorithm>

#include "command.h"

namespace stalloc::tools {
namespace {

class Usage : public CommandTest {};

TEST_F(Usage, EveryVerbHasHelpWithAnExample) {
  EXPECT_EQ(RunStalloc({"--help"}).exit_code, 0);
  EXPECT_EQ(RunStalloc({"--version"}).exit_code, 0);
  for (const char* verb : {"run", "plan", "show", "replay", "report", "import", "export", "doctor"}) {
    const Ended ended = RunStalloc({verb, "--help"});
    EXPECT_EQ(ended.exit_code, 0) << verb;
    EXPECT_NE(ended.output.find(std::string("Example: stalloc ") + verb), std::string::npos) << verb;
    EXPECT_EQ(ended.errors, "") << verb;
  }
}

TEST_F(Usage, MistakesAreExitCodeTwo) {
  const std::string input = Write("small.csv", SmallLifetimes());
  const std::vector<std::vector<std::string>> mistakes = {
      {"dance"},
      {"plan"},
      {"plan", input, "--capacity", "-5"},
      {"plan", input, "--capacity", "many"},
      {"plan", input, "--alignment", "3"},
      {"plan", input, "--deadline", "-1"},
      {"plan", input, "--threads", "5000"},
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
    EXPECT_LT(ended.errors.size(), 300u) << ended.errors;
    EXPECT_EQ(std::count(ended.errors.begin(), ended.errors.end(), '\n'), 1) << ended.errors;
    EXPECT_EQ(ended.output, "") << ::testing::PrintToString(mistake);
  }
}

// Who does not know what to ask for is told the usual things; a script that forgot its arguments fails.
TEST_F(Usage, WithoutArgumentsItNamesTheUsualUses) {
  const Ended ended = RunStalloc({});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_EQ(ended.output, "");
  for (const char* use :
       {"stalloc doctor --", "stalloc run --", "stalloc run --trace=", "stalloc show", "stalloc replay"})
    EXPECT_NE(ended.errors.find(use), std::string::npos) << ended.errors;
  EXPECT_NE(ended.errors.find("stalloc --help"), std::string::npos) << ended.errors;
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
      {{"dance"}, "there is no command dance; stalloc --help"},
      {{"repaly", input}, "there is no command repaly; did you mean replay?"},
      {{"--verison"}, "there is no option --verison; did you mean --version?"},
      {{"plan", input, "--capcity=3"}, "--capcity=3; did you mean --capacity?"},
      {{"plan", input, "--xyz"}, "--xyz; stalloc plan --help"},
      {{"run", "--memory-limt=3GiB", "--", "true"}, "--memory-limt=3GiB; did you mean --memory-limit?"},
      {{"run", "--memory-limit=abc", "--", "true"},
       "--memory-limit=abc: it must be SIZE|PERCENT% (a size is bytes, or KiB"},
      {{"doctor", "--no-such-option"}, "doctor has no option --no-such-option; stalloc doctor --help"},
      {{"doctor", "--jsn"}, "--jsn; did you mean --json?"},
      {{"plan", input, "--capacity", "20 gigs"}, "--capacity: \"20 gigs\" is no size; it must be bytes, or KiB"},
      {{"plan", input, "--alignment", "-2MiB"}, "--alignment: \"-2MiB\" is no size"},
      {{"plan", input, "--step", "-1"}, "--step: \"-1\" is no whole number"},
      {{"plan", input, "--threads=two"}, "--threads: \"two\" is no whole number"},
      {{"replay", input, "--growth", "9"}, "--growth: \"9\" must be auto|1.0..4.0"},
      {{"replay", input, "--memory", "lots"}, "--memory: \"lots\" is no size"},
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

// Recorded files are large, so people pack them: the contents say so, not the name.
TEST_F(Usage, EveryVerbReadsWhatIsGzipped) {
  const auto pack = [&](const std::string& name, const std::string& content) {
    const gzFile file = gzopen(Path(name).c_str(), "wb");
    gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
    gzclose(file);
    return Path(name);
  };
  const std::string csv = pack("events", SmallTraining(4, 10));
  const std::string lifetimes = pack("lifetimes.csv", SmallLifetimes());
  const std::string statistics = pack(
      "stats.json.gz", R"({"format": "stalloc-statistics", "version": 1, "process": {}, "total": {}, "devices": []})");
  for (const char* verb : {"show", "plan", "replay"}) EXPECT_EQ(RunStalloc({verb, csv}).exit_code, 0) << verb;
  for (const char* verb : {"show", "plan"}) EXPECT_EQ(RunStalloc({verb, lifetimes}).exit_code, 0) << verb;
  EXPECT_EQ(RunStalloc({"show", statistics}).exit_code, 0);

  ASSERT_EQ(RunStalloc({"plan", lifetimes, "-o", Path("small.plan")}).exit_code, 0);
  const Ended plan = RunStalloc({"show", pack("small.plan.gz", Read(Path("small.plan")))});
  EXPECT_EQ(plan.exit_code, 3);
  EXPECT_NE(plan.errors.find("small.plan.gz: a gzipped plan; gunzip"), std::string::npos) << plan.errors;
}

TEST_F(Usage, AFolderIsRefusedByName) {
  const Ended folder = RunStalloc({"show", Path(".")});
  EXPECT_EQ(folder.exit_code, 1);
  EXPECT_NE(folder.errors.find("Is a directory"), std::string::npos) << folder.errors;
}

// Before anything is computed.
TEST_F(Usage, AnOutputThatCannotBeIsRefusedByName) {
  const std::string input = Write("training.csv", SmallTraining(4, 10));
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"plan", input, "-o", Path("nowhere/out")},
           {"plan", input, "-o", Path("."), "--force"},
           {"plan", input, "--placements", Path("nowhere/out")},
           {"replay", input, "--plan", Path("nowhere/out")},
       }) {
    const Ended ended = RunStalloc(words);
    EXPECT_EQ(ended.exit_code, 1) << ::testing::PrintToString(words) << ended.errors;
    EXPECT_TRUE(ended.errors.starts_with("stalloc: error: " + words[3] + ": create: ")) << ended.errors;
    EXPECT_EQ(ended.output, "");
  }
  const Ended taken = RunStalloc({"replay", input, "--plan", input});
  EXPECT_EQ(taken.exit_code, 3);
  EXPECT_NE(taken.errors.find("training.csv: holds something else, and is left as it is"), std::string::npos);
  const Ended small = RunStalloc({"replay", input, "--memory", "2MiB"});
  EXPECT_EQ(small.exit_code, 4);
  EXPECT_NE(small.errors.find("training.csv: event "), std::string::npos) << small.errors;
}

TEST_F(Usage, OutputThatCannotBeWrittenIsAnError) {
  const std::string input = Write("small.csv", SmallLifetimes());
  const Ended ended = RunWords({"sh", "-c", std::string(STALLOC_COMMAND) + " show " + input + " > /dev/full"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_NE(ended.errors, "");
}

}  // namespace
}  // namespace stalloc::tools
