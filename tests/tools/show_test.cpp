// stalloc show: the figures of traces, and traces of the project's own format.
#include <zlib.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "command.h"
#include "planner/trace_file.h"

namespace stalloc::tools {
namespace {

using nlohmann::json;
using planner::TraceEvent;

class ShowVerb : public CommandTest {
 protected:
  // A trace in two blocks: three blocks of memory, 700 bytes live at most.
  std::string WriteTrace(const std::vector<planner::CallSiteFrames>& names = {}) const {
    const std::string path = Path("run.trace");
    auto writer = planner::TraceWriter::Create(path);
    EXPECT_TRUE(writer.ok());
    std::vector<TraceEvent> events;
    const auto add = [&](TraceEvent::Op op, std::uint64_t block, std::uint64_t size_bytes) {
      TraceEvent event;
      event.op = op;
      event.sequence = events.size();
      event.block = block;
      event.size_bytes = size_bytes;
      event.call_site = 0xabc0 + size_bytes;
      events.push_back(event);
    };
    add(TraceEvent::Op::kAllocate, 0, 100);
    add(TraceEvent::Op::kAllocate, 1, 200);
    add(TraceEvent::Op::kFree, 0, 100);
    add(TraceEvent::Op::kAllocate, 2, 500);
    add(TraceEvent::Op::kFree, 1, 200);
    const std::span<const TraceEvent> all(events);
    EXPECT_FALSE((*writer)->Append(all.first(3)));
    EXPECT_FALSE((*writer)->Append(all.subspan(3)));
    EXPECT_FALSE((*writer)->AppendNames(names));
    return path;
  }
};

TEST_F(ShowVerb, CountsATrace) {
  const json shown = json::parse(RunStalloc({"show", WriteTrace(), "--json"}).output);
  EXPECT_EQ(shown.at("format"), "trace");
  EXPECT_EQ(shown.at("allocations"), 3);
  EXPECT_EQ(shown.at("frees"), 2);
  EXPECT_EQ(shown.at("allocated_bytes"), 800);
  EXPECT_EQ(shown.at("peak_live_bytes"), 700);
  EXPECT_EQ(shown.at("live_at_end_bytes"), 500);
  ASSERT_EQ(shown.at("largest_call_sites").size(), 3u);
  EXPECT_EQ(shown.at("largest_call_sites")[0].at("peak_live_bytes"), 500);
}

// At the peak of 700 bytes the blocks of 200 and 500 are live; the one of 100 is not.
TEST_F(ShowVerb, CallSitesAreOrderedByTheirBytesAtThePeak) {
  const json sites = json::parse(RunStalloc({"show", WriteTrace(), "--json"}).output).at("largest_call_sites");
  std::vector<std::uint64_t> at_peak;
  for (const json& site : sites) at_peak.push_back(site.at("at_peak_bytes"));
  EXPECT_EQ(at_peak, (std::vector<std::uint64_t>{500, 200, 0}));
}

TEST_F(ShowVerb, TopSaysHowManyCallSitesAreListed) {
  const std::string path = WriteTrace();
  const auto listed = [&](const std::string& top) {
    return json::parse(RunStalloc({"show", path, "--json", "--top", top}).output).at("largest_call_sites").size();
  };
  EXPECT_EQ(listed("1"), 1u);
  EXPECT_EQ(listed("2"), 2u);
  EXPECT_EQ(listed("0"), 3u);
  for (const char* bad : {"-1", "many", "99999999999999999999"}) {
    const Ended ended = RunStalloc({"show", path, "--top", bad});
    EXPECT_EQ(ended.exit_code, 2) << bad;
    EXPECT_NE(ended.errors.find("no whole number from 0 to"), std::string::npos) << ended.errors;
  }
}

TEST_F(ShowVerb, TextFitsTheTerminal) {
  const std::string long_name(150, 'x');
  const std::string path = WriteTrace({{0xabc0 + 500, {long_name + " (liba.so+0x1)"}}});
  const std::string statistics = Write("stats.json", R"({"format": "stalloc-statistics", "version": 1, "process": {},
      "total": {}, "devices": [{"ordinal": 0, "name": "NVIDIA H200", "peak_live_bytes": 15601764925,
      "peak_reserved_bytes": 15623239761, "last_iterations": [{"number": 7, "requests": 9000, "map_us": 12}]}]})");
  for (const std::size_t columns : {60, 80, 200}) {
    for (const std::string& file : {path, statistics}) {
      const Ended ended = RunStalloc({"show", file}, {"COLUMNS=" + std::to_string(columns)});
      ASSERT_EQ(ended.exit_code, 0) << ended.errors;
      std::istringstream lines(ended.output);
      for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("file ")) continue;  // a path is not cut off
        // The ellipsis is one column and three bytes.
        const std::size_t ellipsis = line.find("\u2026") == std::string::npos ? 0 : 2;
        EXPECT_LE(line.size() - ellipsis, columns) << ended.output;
      }
    }
  }
  EXPECT_NE(RunStalloc({"show", path}).output.find(long_name), std::string::npos) << "a file has no width";
}

TEST_F(ShowVerb, StandardInputAndPipesAreRead) {
  const std::string command = STALLOC_COMMAND;
  const std::string path = WriteTrace();
  for (const std::string& line :
       {"cat " + path + " | " + command + " show - --json", command + " show - --json < " + path,
        "cat " + path + " | gzip | " + command + " show /dev/stdin --json"}) {
    const Ended ended = RunWords({"sh", "-c", line});
    ASSERT_EQ(ended.exit_code, 0) << line << ended.errors;
    EXPECT_EQ(json::parse(ended.output).at("peak_live_bytes"), 700) << line;
  }
  const Ended plan = RunWords({"sh", "-c", "cat " + path + " | " + command + " plan - --json"});
  EXPECT_EQ(plan.exit_code, 0) << plan.errors;
  const Ended bad = RunWords({"sh", "-c", "echo text | " + command + " show -"});
  EXPECT_EQ(bad.exit_code, 3);
  EXPECT_NE(bad.errors.find("error: standard input: "), std::string::npos) << bad.errors;
}

TEST_F(ShowVerb, ATraceCutOffIsRefusedUnlessSalvaged) {
  const std::string whole = Read(WriteTrace());
  const std::string cut = Write("cut.trace", whole.substr(0, whole.size() - 5));
  const Ended refused = RunStalloc({"show", cut});
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_NE(refused.errors.find("cut.trace"), std::string::npos);
  const Ended salvaged = RunStalloc({"show", cut, "--salvage", "--json"});
  ASSERT_EQ(salvaged.exit_code, 0) << salvaged.errors;
  EXPECT_EQ(json::parse(salvaged.output).at("events"), 3);
}

// The frames that all share are the framework's allocator: left out where there is another.
TEST_F(ShowVerb, CallSitesHaveTheNamesThatTellThemApart) {
  const std::string path = WriteTrace({{0xabc0 + 500, {"malloc (liba.so+0x1)", "conv (libb.so+0x2)", "step (t+0x3)"}},
                                       {0xabc0 + 200, {"malloc (liba.so+0x1)", "t+0x77", "main (t+0x4)"}}});
  const Ended ended = RunStalloc({"show", path});
  EXPECT_NE(ended.output.find("  conv < step\n"), std::string::npos) << ended.output;
  EXPECT_NE(ended.output.find("  t+0x77 < main\n"), std::string::npos) << ended.output;
  const json sites = json::parse(RunStalloc({"show", path, "--json"}).output).at("largest_call_sites");
  EXPECT_EQ(sites[0].at("frames"),
            (std::vector<std::string>{"malloc (liba.so+0x1)", "conv (libb.so+0x2)", "step (t+0x3)"}));
  EXPECT_TRUE(sites[2].at("place").is_null()) << "of 100 bytes nothing is known";
  const json unnamed = json::parse(RunStalloc({"show", WriteTrace(), "--json"}).output).at("largest_call_sites");
  EXPECT_FALSE(unnamed[0].contains("place"));
}

TEST_F(ShowVerb, AGzippedTraceIsReadAndACutOffOneSalvaged) {
  const std::string whole = Read(WriteTrace());
  const std::string path = Path("packed");
  const gzFile file = gzopen(path.c_str(), "wb0");  // stored: what is cut off is the end of the trace
  gzwrite(file, whole.data(), static_cast<unsigned>(whole.size()));
  gzclose(file);
  const json shown = json::parse(RunStalloc({"show", path, "--json"}).output);
  EXPECT_EQ(shown.at("format"), "trace");
  EXPECT_EQ(shown.at("peak_live_bytes"), 700);
  EXPECT_EQ(RunStalloc({"plan", path}).exit_code, 0);
  EXPECT_EQ(RunStalloc({"replay", path, "--allocator", "torch"}).exit_code, 0);

  const std::string packed = Read(path);
  const std::string cut = Write("cut", packed.substr(0, packed.size() - 20));
  const Ended refused = RunStalloc({"show", cut});
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_NE(refused.errors.find("cut: byte "), std::string::npos) << refused.errors;
  EXPECT_NE(refused.errors.find("gzip: truncated"), std::string::npos) << refused.errors;
  EXPECT_NE(refused.errors.find("--salvage"), std::string::npos) << refused.errors;
  const Ended salvaged = RunStalloc({"show", cut, "--salvage", "--json"});
  ASSERT_EQ(salvaged.exit_code, 0) << salvaged.errors;
  EXPECT_EQ(json::parse(salvaged.output).at("events"), 3);

  std::string damaged = packed;
  damaged[packed.size() / 2] = static_cast<char>(damaged[packed.size() / 2] ^ 0x10);
  EXPECT_EQ(RunStalloc({"show", Write("damaged", damaged), "--salvage"}).exit_code, 3);
}

// 1 MiB of 140 GiB must show: three digits would hide it.
TEST_F(ShowVerb, AmountsThatDifferLittleLookDifferent) {
  const std::string path =
      Write("close.json", R"({"format": "stalloc-statistics", "version": 1, "process": {}, "total": {},
      "devices": [{"ordinal": 0, "peak_live_bytes": 15601764925, "peak_reserved_bytes": 15623239761}]})");
  const Ended ended = RunStalloc({"show", path});
  EXPECT_NE(ended.output.find("14.53 GiB"), std::string::npos) << ended.output;
  EXPECT_NE(ended.output.find("14.55 GiB"), std::string::npos) << ended.output;
}

TEST_F(ShowVerb, StepsOfACsvAreListed) {
  const json shown = json::parse(RunStalloc({"show", Write("t.csv", SmallTraining(3, 4)), "--json"}).output);
  ASSERT_EQ(shown.at("steps").size(), 3u);
  EXPECT_EQ(shown.at("steps")[1].at("requests"), 12);
}

TEST_F(ShowVerb, TextSaysTheSame) {
  const Ended ended = RunStalloc({"show", WriteTrace()});
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_NE(ended.output.find("peak_live_bytes    700 B"), std::string::npos) << ended.output;
}

TEST_F(ShowVerb, StatisticsThatItDoesNotKnowAreRefusedWithTheReason) {
  const std::vector<std::pair<std::string, std::string>> files = {
      {"{", "parse error"},
      {"{}", "format"},
      {R"({"format": "somebody's"})", "not stalloc's statistics"},
      {R"({"format": "stalloc-statistics", "version": 9})", "version 9"},
      {R"({"format": "stalloc-statistics", "version": 1, "process": 3})", "process"},
      {R"({"format": "stalloc-statistics", "version": 1, "process": {}, "total": {}, "devices": [7]})", "devices"},
  };
  for (const auto& [content, reason] : files) {
    const Ended ended = RunStalloc({"show", Write("bad.json", content)});
    EXPECT_EQ(ended.exit_code, 3) << content;
    EXPECT_NE(ended.errors.find("bad.json"), std::string::npos) << ended.errors;
    EXPECT_NE(ended.errors.find(reason), std::string::npos) << ended.errors;
  }
  const std::string least =
      R"({"format": "stalloc-statistics", "version": 1, "process": {}, "total": {}, "devices": [{}]})";
  EXPECT_EQ(RunStalloc({"show", Write("least.json", least)}).exit_code, 0);
}

}  // namespace
}  // namespace stalloc::tools
