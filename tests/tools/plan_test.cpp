// stalloc plan: its answers, its exit codes, and the files that it must not lose.
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "command.h"

namespace stalloc::tools {
namespace {

using nlohmann::json;

class PlanVerb : public CommandTest {};

TEST_F(PlanVerb, JsonHasTheDocumentedFields) {
  const std::string input = Write("small.csv", SmallLifetimes());
  const Ended ended = RunStalloc({"plan", input, "--json"});
  ASSERT_EQ(ended.exit_code, 0) << ended.errors;
  const json answer = json::parse(ended.output);
  EXPECT_EQ(answer.at("requests"), 6);
  EXPECT_EQ(answer.at("lower_bound_bytes"), 40);
  EXPECT_GE(answer.at("arena_bytes"), 40);
  EXPECT_DOUBLE_EQ(answer.at("ratio").get<double>(), answer.at("arena_bytes").get<double>() / 40);
  EXPECT_GE(answer.at("seconds"), 0.0);
  EXPECT_EQ(answer.at("valid"), true);
}

// Far more blocks than can be packed to the bound, of sizes that have no common measure.
std::string HardLifetimes() {
  std::string csv = "id,lower,upper,size\n";
  std::uint32_t state = 12345;
  const auto next = [&](std::uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
  };
  for (int i = 0; i < 3000; ++i) {
    const std::uint32_t lower = next(1000);
    const std::uint32_t upper = lower + 1 + next(200);
    csv += std::to_string(i) + "," + std::to_string(lower) + "," + std::to_string(upper) + "," +
           std::to_string(1 + next(1u << 20)) + "\n";
  }
  return csv;
}

TEST_F(PlanVerb, CtrlCGivesTheBestPlanSoFar) {
  const std::string input = Write("hard.csv", HardLifetimes());
  const auto start = std::chrono::steady_clock::now();
  const Ended ended = RunWords({"timeout", "--preserve-status", "-s", "INT", "3", STALLOC_COMMAND, "plan", input,
                                "--json", "--deadline", "200", "--placements", Path("placed.csv")});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(100));
  ASSERT_EQ(ended.exit_code, 0) << ended.errors;
  const json answer = json::parse(ended.output);
  EXPECT_EQ(answer.at("interrupted"), true);
  EXPECT_EQ(answer.at("valid"), true);
  EXPECT_TRUE(std::filesystem::exists(Path("placed.csv")));
}

TEST_F(PlanVerb, HelpNamesTheDefaultDeadline) {
  EXPECT_NE(RunStalloc({"plan", "--help"}).output.find("60 at most"), std::string::npos);
}

TEST_F(PlanVerb, ATraceIsAlsoPlannedInPages) {
  const std::string input = Write("training.csv", SmallTraining(3, 4));
  const json pages = json::parse(RunStalloc({"plan", input, "--json"}).output).at("page_plan");
  EXPECT_GE(pages.at("pages"), pages.at("lower_bound_pages"));
  EXPECT_GE(pages.at("contiguous_pages"), pages.at("pages"));
  EXPECT_GE(pages.at("paged_pages"), pages.at("lower_bound_pages"));
}

TEST_F(PlanVerb, PlansTheLastWholeStepOrTheOneAskedFor) {
  const std::string input = Write("training.csv", SmallTraining(3, 4));
  const json last = json::parse(RunStalloc({"plan", input, "--json"}).output);
  EXPECT_EQ(last.at("step"), 3);
  EXPECT_EQ(last.at("requests"), 12);
  EXPECT_EQ(json::parse(RunStalloc({"plan", input, "--json", "--step", "2"}).output).at("step"), 2);
  EXPECT_EQ(RunStalloc({"plan", input, "--step", "9"}).exit_code, 2);
}

TEST_F(PlanVerb, ATrainingRunCutOffInItsLastStepIsPlannedFromTheOneBefore) {
  std::string csv = SmallTraining(3, 8);
  csv.resize(csv.rfind("a,", csv.find(",3\n") + 40));  // a few events of step 3 remain
  const json answer = json::parse(RunStalloc({"plan", Write("cut.csv", csv), "--json"}).output);
  EXPECT_EQ(answer.at("step"), 2);
}

TEST_F(PlanVerb, PlacementsDoNotOverlap) {
  const std::string input = Write("small.csv", SmallLifetimes());
  ASSERT_EQ(RunStalloc({"plan", input, "--placements", Path("out.csv")}).exit_code, 0);
  std::istringstream lines(Read(Path("out.csv")));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "id,lower,upper,size,offset");
  struct Row {
    long lower, upper, size, offset;
  };
  std::vector<Row> rows;
  char id = 0;
  for (Row row{}; std::getline(lines, line);) {
    ASSERT_EQ(std::sscanf(line.c_str(), "%c,%ld,%ld,%ld,%ld", &id, &row.lower, &row.upper, &row.size, &row.offset), 5);
    for (const Row& other : rows) {
      const bool same_time = row.lower < other.upper && other.lower < row.upper;
      const bool same_place = row.offset < other.offset + other.size && other.offset < row.offset + row.size;
      EXPECT_FALSE(same_time && same_place) << line;
    }
    rows.push_back(row);
  }
  EXPECT_EQ(rows.size(), 6u);
}

TEST_F(PlanVerb, AnExistingFileIsKeptUnlessForced) {
  const std::string input = Write("small.csv", SmallLifetimes());
  for (const char* option : {"-o", "--placements"}) {
    const std::string precious = Write("precious", "years of work");
    const Ended refused = RunStalloc({"plan", input, option, precious});
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_NE(refused.errors.find("precious"), std::string::npos);
    EXPECT_EQ(refused.output, "");
    EXPECT_EQ(Read(precious), "years of work");
    EXPECT_EQ(RunStalloc({"plan", input, option, precious, "--force"}).exit_code, 0);
    EXPECT_NE(Read(precious), "years of work");
  }
}

TEST_F(PlanVerb, TheInputIsNeverTheOutput) {
  const std::string input = Write("small.csv", SmallLifetimes());
  EXPECT_EQ(RunStalloc({"plan", input, "-o", input, "--force"}).exit_code, 2);
  EXPECT_EQ(RunStalloc({"plan", input, "-o", Path("x"), "--placements", Path("./x")}).exit_code, 2);
  EXPECT_EQ(Read(input), SmallLifetimes());
}

TEST_F(PlanVerb, WhatDoesNotFitIsExitCodeFourAndWritesNothing) {
  const std::string input = Write("small.csv", SmallLifetimes());
  const Ended ended = RunStalloc({"plan", input, "--capacity", "39", "--json", "-o", Path("out.plan")});
  EXPECT_EQ(ended.exit_code, 4);
  EXPECT_EQ(json::parse(ended.output).at("status"), "infeasible");
  EXPECT_GE(json::parse(ended.output).at("arena_bytes"), 40);
  EXPECT_NE(ended.errors.find("does not fit 39 bytes"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(Path("out.plan")));
}

TEST_F(PlanVerb, AWrittenPlanIsShownAgain) {
  const std::string input = Write("training.csv", SmallTraining(3, 4));
  ASSERT_EQ(RunStalloc({"plan", input, "-o", Path("training.plan")}).exit_code, 0);
  const json plan = json::parse(RunStalloc({"show", Path("training.plan"), "--json"}).output);
  EXPECT_EQ(plan.at("format"), "plan");
  EXPECT_EQ(plan.at("requests"), 12);
  EXPECT_EQ(plan.at("in_runs").get<int>() + plan.at("in_views").get<int>(), 12);
  EXPECT_EQ(RunStalloc({"plan", Path("training.plan")}).exit_code, 3);
}

TEST_F(PlanVerb, AFrontListsPlansNoneOfWhichIsWorseThanAnotherAndWritesTheChosenOne) {
  const std::string input = Write("training.csv", SmallTraining(3, 12));
  const Ended ended = RunStalloc({"plan", input, "--front", "--json", "-o", Path("chosen.plan")});
  ASSERT_EQ(ended.exit_code, 0) << ended.errors;
  const json answer = json::parse(ended.output);
  const json& choices = answer.at("choices");
  ASSERT_GE(choices.size(), 2u);
  const auto as_good = [](const json& a, const json& b) {
    for (const char* merit : {"pages", "handles", "waits", "moves"}) {
      if (a.at(merit) > b.at(merit)) return false;
    }
    return a.at("headroom") >= b.at("headroom");
  };
  json chosen;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    EXPECT_GE(choices[i].at("pages"), answer.at("lower_bound_pages"));
    EXPECT_EQ(choices[i].at("waits"), 0) << "there is one stream";
    for (std::size_t k = 0; k < choices.size(); ++k) EXPECT_TRUE(i == k || !as_good(choices[k], choices[i]));
    if (choices[i].at("chosen").get<bool>()) chosen = choices[i];
  }
  ASSERT_FALSE(chosen.is_null());
  EXPECT_EQ(chosen.at("handles"), 0) << "memory is ample: what is mapped already will do";
  EXPECT_EQ(chosen.at("moves"), 0);
  const json plan = json::parse(RunStalloc({"show", Path("chosen.plan"), "--json"}).output);
  EXPECT_EQ(plan.at("requests"), answer.at("requests"));
}

//  pages 0     3   5       9
//        [x   ]                   x, y, then z once x is gone: online, z lies above y and 9 pages are touched;
//              [y ][z     ]       planned, y leaves room for z below it, and 6 are enough.
TEST_F(PlanVerb, AFrontIsChosenFromByTheCapacity) {
  const std::string input = Write("three.csv", "id,lower,upper,size\nx,0,2,6291456\ny,1,4,4194304\nz,2,4,8388608\n");
  const auto chosen_pages = [&](const char* capacity) {
    const Ended ended = RunStalloc({"plan", input, "--front", "--json", "--capacity", capacity});
    EXPECT_EQ(ended.exit_code, 0) << ended.errors;
    const json answer = json::parse(ended.output);
    for (const json& choice : answer.at("choices")) {
      if (choice.at("chosen").get<bool>()) return choice.at("pages").get<int>();
    }
    return 0;
  };
  EXPECT_EQ(chosen_pages("18874368"), 9) << "ample: as it is";
  EXPECT_EQ(chosen_pages("12582912"), 6) << "short";
  const Ended none = RunStalloc({"plan", input, "--front", "--capacity", "10485760", "-o", Path("none.plan")});
  EXPECT_EQ(none.exit_code, 4);
  EXPECT_NE(none.errors.find("does not fit 5 pages: 6 are the fewest found"), std::string::npos) << none.errors;
  EXPECT_FALSE(std::filesystem::exists(Path("none.plan")));
  EXPECT_EQ(RunStalloc({"plan", input, "--front", "--placements", Path("x.csv")}).exit_code, 2);
}

TEST_F(PlanVerb, AFolderThatIsNotThereIsAnIoError) {
  const std::string input = Write("small.csv", SmallLifetimes());
  EXPECT_EQ(RunStalloc({"plan", input, "-o", Path("nowhere/out.plan")}).exit_code, 1);
  EXPECT_EQ(RunStalloc({"plan", Path("nothing.csv")}).exit_code, 1);
}

}  // namespace
}  // namespace stalloc::tools
