// The main job from end to end, without a GPU: a program that is linked to the CUDA runtime alone, run by
// `stalloc run` over the simulated driver.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "command.h"
#include "planner/trace_file.h"

namespace stalloc::tools {
namespace {

using nlohmann::json;

class Trainer : public PreloadedTest {
 protected:
  Ended Plain(const std::string& steps = "20") const { return RunWords({STALLOC_SIMTRAINER, steps}, {Libraries()}); }

  // With statistics into `stats`; the plan cache of whoever runs the tests is left alone.
  Ended Preloaded(const std::string& stats, std::vector<std::string> options = {},
                  const std::string& steps = "20") const {
    options.insert(options.begin(), {"run", "--plan-cache=off", "--stats=" + stats});
    options.insert(options.end(), {"--", STALLOC_SIMTRAINER, steps});
    return RunStalloc(options, {Libraries()});
  }

  static std::string Libraries() { return std::string("LD_LIBRARY_PATH=") + STALLOC_SIMCUDA_LIBRARIES; }
};

TEST_F(Trainer, IsPlannedAndHoldsLessAndComputesTheSame) {
  const Ended plain = Plain();
  ASSERT_EQ(plain.exit_code, 0) << plain.errors;
  EXPECT_EQ(plain.errors, "");
  const json without = json::parse(plain.output);

  const Ended preloaded = Preloaded(Path("stats.json"));
  ASSERT_EQ(preloaded.exit_code, 0) << preloaded.errors;
  const json with = json::parse(preloaded.output);
  EXPECT_EQ(with.at("checksums"), without.at("checksums"));
  EXPECT_EQ(std::set<std::string>(with.at("checksums").begin(), with.at("checksums").end()).size(), 20u)
      << "the steps' checksums tell nothing apart";
  EXPECT_LT(with.at("reserved_bytes"), without.at("reserved_bytes"));
  EXPECT_LE(1 - with.at("live_bytes").get<double>() / with.at("reserved_bytes").get<double>(), 0.01);
  EXPECT_NE(preloaded.errors.find("fragmentation"), std::string::npos) << preloaded.errors;

  const json total = json::parse(Read(Path("stats.json"))).at("total");
  EXPECT_GT(total.at("planned_requests"), 0);
  EXPECT_EQ(total.at("peak_live_bytes"), with.at("live_bytes"));
}

TEST_F(Trainer, ItsTraceSaysWhereItsRequestsComeFrom) {
  const std::string path = Path("named.trace");
  ASSERT_EQ(Preloaded(Path("stats.json"), {"--trace=" + path}, "3").exit_code, 0);
  const auto trace = planner::ReadTraceFile(path, planner::TraceTail::kMustBeWhole);
  ASSERT_TRUE(trace.ok()) << trace.error().Text();
  std::set<std::uint64_t> sites;
  for (const planner::TraceEvent& event : trace->events) sites.insert(event.call_site);
  sites.erase(0);
  if (sites.empty()) GTEST_SKIP() << "nothing walks the stack here";
  for (const std::uint64_t site : sites) {
    const auto known = trace->frames.find(site);
    ASSERT_NE(known, trace->frames.end());
    EXPECT_TRUE(std::any_of(known->second.begin(), known->second.end(), [](const std::string& frame) {
      return frame.find("simtrainer+0x") != frame.npos;
    })) << ::testing::PrintToString(known->second);
  }
}

// The statistics are whole, agree with themselves, and can be shown.
TEST_F(Trainer, ItsStatisticsTellOfEveryIteration) {
  const std::string plan = "--plan=" + Path("kept.plan");
  ASSERT_EQ(Preloaded(Path("first.json"), {plan, "--memory-limit=30GiB"}).exit_code, 0);
  const json first = json::parse(Read(Path("first.json"))).at("devices")[0];
  EXPECT_EQ(first.at("limit_bytes"), std::uint64_t{30} << 30);
  EXPECT_EQ(first.at("plan").at("kept"), "none");
  EXPECT_TRUE(first.at("plan").at("method").is_string());
  EXPECT_GT(first.at("plan").at("planned_requests"), 1000);
  EXPECT_LE(first.at("plan").at("planned_requests"), first.at("plan").at("requests"));
  EXPECT_NEAR(first.at("iterations").get<int>(), 20, 1);
  const json& iterations = first.at("last_iterations");
  ASSERT_GT(iterations.size(), 3u);
  for (std::size_t i = 1; i < iterations.size(); ++i) {
    EXPECT_EQ(iterations[i].at("number"), iterations[i - 1].at("number").get<int>() + 1);
    EXPECT_EQ(iterations[i].at("requests"), first.at("plan").at("requests"));
  }
  EXPECT_GE(first.at("after_warm_up").at("from_iteration"), 5);
  EXPECT_LE(first.at("after_warm_up").at("map_calls"), first.at("map_calls"));
  EXPECT_EQ(first.at("idle_usable_bytes").get<std::uint64_t>() + first.at("idle_ordered_bytes").get<std::uint64_t>() +
                first.at("idle_remainder_bytes").get<std::uint64_t>() +
                first.at("idle_view_bytes").get<std::uint64_t>() + first.at("live_bytes").get<std::uint64_t>(),
            first.at("reserved_bytes"));

  ASSERT_EQ(Preloaded(Path("second.json"), {plan}, "3").exit_code, 0);
  const json second = json::parse(Read(Path("second.json"))).at("devices")[0];
  EXPECT_EQ(second.at("plan").at("kept"), "used");

  const Ended shown = RunStalloc({"show", Path("first.json")});
  EXPECT_EQ(shown.exit_code, 0) << shown.errors;
  for (const char* part : {"fragmentation", "last_iterations\n", "after_warm_up\n", "Simulated CUDA device"})
    EXPECT_NE(shown.output.find(part), std::string::npos) << part << "\n" << shown.output;
  EXPECT_EQ(json::parse(RunStalloc({"show", Path("first.json"), "--json"}).output).at("planned_requests"),
            first.at("planned_requests"));
}

// A plan cache that is not there yet is made, and what it holds is found by the next run.
TEST_F(Trainer, ThePlanCacheIsFoundAgain) {
  const std::string cache = "--plan-cache=" + Path("cache/of/plans");
  for (const char* expected : {"none", "used"}) {
    const Ended ended =
        RunStalloc({"run", cache, "--stats=" + Path("stats.json"), "--", STALLOC_SIMTRAINER, "20"}, {Libraries()});
    ASSERT_EQ(ended.exit_code, 0) << ended.errors;
    EXPECT_EQ(ended.errors.find("could not be kept"), std::string::npos) << ended.errors;
    EXPECT_EQ(json::parse(Read(Path("stats.json"))).at("devices")[0].at("plan").at("kept"), expected);
  }
}

// Three steps are too few to learn anything in: what is planned in them comes from the plan that was kept.
TEST_F(Trainer, ASecondRunIsServedFromItsPlanFromTheStart) {
  const std::string plan = "--plan=" + Path("kept.plan");
  ASSERT_EQ(Preloaded(Path("first.json"), {plan}).exit_code, 0);
  const Ended second = Preloaded(Path("second.json"), {plan}, "3");
  ASSERT_EQ(second.exit_code, 0) << second.errors;
  const json total = json::parse(Read(Path("second.json"))).at("total");
  EXPECT_GT(total.at("planned_requests"), total.at("online_requests"));
  EXPECT_LE(total.at("fragmentation"), 0.01);
  const json reference = json::parse(Plain("3").output);
  EXPECT_EQ(json::parse(second.output).at("checksums"), reference.at("checksums"));
}

TEST_F(Trainer, OnATerminalItIsSaidWhatToDoWithTheTrace) {
  if (RunWords({"script", "--version"}).exit_code != 0) GTEST_SKIP() << "no script(1) here, which makes a terminal";
  const std::string command = std::string(STALLOC_COMMAND) + " run --plan-cache=off --trace=" + Path("run.trace") +
                              " -- " + STALLOC_SIMTRAINER + " 3";
  const std::vector<std::string> simulated = {std::string("LD_LIBRARY_PATH=") + STALLOC_SIMCUDA_LIBRARIES};
  const Ended ended = RunWords({"script", "-qec", command, Path("typescript")}, simulated);
  EXPECT_NE(ended.output.find("stalloc: next: stalloc replay"), std::string::npos) << ended.output;
}

TEST_F(Trainer, ATraceIsNotOverwrittenUnasked) {
  const std::vector<std::string> trace = {"--trace=" + Path("run.trace")};
  ASSERT_EQ(Preloaded(Path("stats.json"), trace, "3").exit_code, 0);
  const std::string first = Read(Path("run.trace"));
  const Ended refused = Preloaded(Path("stats.json"), trace, "3");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.errors.find("run.trace: exists already; --force overwrites it"), std::string::npos);
  EXPECT_EQ(Read(Path("run.trace")), first);
  EXPECT_EQ(Preloaded(Path("stats.json"), {trace.front(), "--force"}, "3").exit_code, 0);
}

TEST_F(Trainer, ItsTraceIsShownPlannedAndReplayed) {
  // So many steps that requests are not put down for the learner any more.
  const Ended ended = Preloaded(Path("stats.json"), {"--trace=" + Path("run.trace")}, "40");
  ASSERT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_EQ(ended.errors.find("stalloc: next:"), std::string::npos) << "advice is for terminals: " << ended.errors;

  const json shown = json::parse(RunStalloc({"show", Path("run.trace"), "--json"}).output);
  const json total = json::parse(Read(Path("stats.json"))).at("total");
  EXPECT_EQ(shown.at("allocations"), total.at("planned_requests").get<int>() + total.at("online_requests").get<int>());
  EXPECT_EQ(shown.at("peak_live_bytes"), total.at("peak_live_bytes"));
  EXPECT_GT(shown.at("call_sites"), 10);
  // The settled plan needs no call sites, whoever reads the trace does.
  const auto trace = planner::ReadTraceFile(Path("run.trace"), planner::TraceTail::kMustBeWhole);
  ASSERT_TRUE(trace.ok()) << trace.error().Text();
  const auto lacks_call_site = [](const planner::TraceEvent& event) {
    return event.op == planner::TraceEvent::Op::kAllocate && event.call_site == 0;
  };
  EXPECT_EQ(std::ranges::count_if(trace->events, lacks_call_site), 0);

  const json planned = json::parse(RunStalloc({"plan", Path("run.trace"), "--json"}).output);
  EXPECT_TRUE(planned.contains("step")) << "no iteration was found in the trace";
  EXPECT_LT(planned.at("requests"), shown.at("allocations"));
  EXPECT_LE(planned.at("ratio"), 1.01);

  const json replayed = json::parse(RunStalloc({"replay", Path("run.trace"), "--json"}).output)[0];
  EXPECT_EQ(replayed.at("peak_live_bytes"), total.at("peak_live_bytes"));
  EXPECT_LE(replayed.at("fragmentation"), 0.01);
}

// A file that was named by mistake is not lost. (An option that names it is refused; a variable reaches the library.)
TEST_F(Trainer, WhatIsNoPlanTraceOrStatisticsIsLeftAsItIs) {
  for (const char* option : {"STALLOC_PLAN=", "STALLOC_TRACE=", "STALLOC_STATS="}) {
    const std::string script = Write("script.py", "import torch");
    const Ended ended =
        RunStalloc({"run", "--plan-cache=off", "--", STALLOC_SIMTRAINER, "20"}, {Libraries(), option + script});
    EXPECT_EQ(ended.exit_code, 0) << ended.errors;
    EXPECT_NE(ended.errors.find(script + ": holds something else"), std::string::npos) << option << ended.errors;
    EXPECT_EQ(ended.errors.find(script + " from its start"), std::string::npos) << option << ended.errors;
    EXPECT_EQ(ended.errors.find("stalloc replay " + script), std::string::npos) << option << ended.errors;
    EXPECT_EQ(Read(script), "import torch") << option;
  }
}

// Said at the beginning already, and not only behind a run of many hours.
TEST_F(Trainer, StatisticsThatCannotBeWrittenAreSaidBefore) {
  const Ended ended = RunStalloc({"run", "--plan-cache=off", "--", STALLOC_SIMTRAINER, "20"},
                                 {Libraries(), "STALLOC_STATS=/nonexistent-directory/stats.json"});
  EXPECT_EQ(ended.exit_code, 0);
  const std::size_t before = ended.errors.find("will not be written: /nonexistent-directory/stats.json");
  ASSERT_NE(before, std::string::npos) << ended.errors;
  EXPECT_LT(before, ended.errors.find("peak live")) << ended.errors;
}

TEST_F(Trainer, DisabledIsAsIfItWereNotThere) {
  const Ended ended = Preloaded(Path("stats.json"), {"--disable=1"});
  const Ended plain = Plain();
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_EQ(ended.output, plain.output);
  EXPECT_EQ(ended.errors.find("stalloc["), std::string::npos) << ended.errors;
}

TEST_F(Trainer, TheSummaryCanBeTurnedOff) {
  const Ended ended = Preloaded(Path("stats.json"), {"--summary=0"});
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_EQ(ended.errors, "");
}

}  // namespace
}  // namespace stalloc::tools
