#include "planner/csv.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <chrono>

#include "files.h"
#include "planner/lower_bound.h"
#include "planner/solve.h"

namespace stalloc::planner {
namespace {

class Csv : public testing::Test {
 protected:
  std::string File(std::string_view text) {
    SetContents(folder_ / "in.csv", text);
    return folder_ / "in.csv";
  }
  // The refusal without the file's name.
  std::string Events(std::string_view text) {
    const auto result = ReadEventCsv(File(text));
    return result.ok() ? "accepted" : result.error().place + ": " + result.error().reason;
  }
  std::string Lifetimes(std::string_view text) {
    const auto result = ReadLifetimeCsv(File(text));
    return result.ok() ? "accepted" : result.error().place + ": " + result.error().reason;
  }
  TemporaryFolder folder_;
};

TEST_F(Csv, ReadsEvents) {
  const auto trace = ReadEventCsv(File("op,id,bytes,stream,step\r\na,x,10,7,1\r\na,y,20,0,1\nf,x,10,7,2\n\na,x,5,7,2"));
  ASSERT_TRUE(trace.ok()) << trace.error().Text();
  ASSERT_EQ(trace->events.size(), 4u);
  EXPECT_EQ(trace->steps, (std::vector<std::uint32_t>{1, 1, 2, 2}));
  EXPECT_EQ(trace->events[1].stream, 1u) << "ordinal of the stream, not its handle";
  EXPECT_EQ(trace->events[2].op, TraceEvent::Op::kFree);
  EXPECT_EQ(trace->events[2].block, 0u);
  EXPECT_EQ(trace->events[3].block, 2u) << "an id may come again after its free";
}

TEST_F(Csv, ReadsColumnsInAnyOrderAndGzip) {
  const std::string path = folder_ / "in.csv.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  const std::string_view text = "size,upper,id,lower\n4,3,b1,0\n4,9,b2,3\n";
  gzwrite(file, text.data(), text.size());
  gzclose(file);
  const auto table = ReadLifetimeCsv(path);
  ASSERT_TRUE(table.ok()) << table.error().Text();
  EXPECT_EQ(table->ids, (std::vector<std::string>{"b1", "b2"}));
  EXPECT_EQ(table->problem.requests[1], (Request{4, 3, 9, 0}));
  const std::string compressed = Contents(path);
  SetContents(path, std::string_view(compressed).substr(0, compressed.size() - 12));
  const auto truncated = ReadLifetimeCsv(path);
  ASSERT_FALSE(truncated.ok());
  EXPECT_NE(truncated.error().Text().find("gzip: unexpected end of file"), std::string::npos)
      << truncated.error().Text();
}

TEST_F(Csv, RefusesBadEventsWithLineAndReason) {
  const std::string head = "op,id,bytes,stream,step\n";
  EXPECT_EQ(Events(""), "line 1: empty file: no header line");
  EXPECT_EQ(Events("op,id,stream,step\n"), "line 1: missing column \"bytes\"");
  EXPECT_EQ(Events(head + "a,1,0,0,1\n"), "line 2: size is zero");
  EXPECT_EQ(Events(head + "a,1,-5,0,1\n"), "line 2: size is negative");
  EXPECT_EQ(Events(head + "a,1,99999999999999999999,0,1\n"), "line 2: size does not fit into 64 bits");
  EXPECT_EQ(Events(head + "a,1,1e3,0,1\n"), "line 2: size is not a whole number: \"1e3\"");
  EXPECT_EQ(Events(head + "a,1,5,0,1\na,1,5,0,1\n"), "line 3: id \"1\" is allocated twice");
  EXPECT_EQ(Events(head + "f,1,5,0,1\n"), "line 2: id \"1\" is freed but was never allocated");
  EXPECT_EQ(Events(head + "a,1,5,0,1\nf,1,5,0,1\nf,1,5,0,1\n"), "line 4: id \"1\" is freed twice");
  EXPECT_EQ(Events(head + "a,1,5,0,1\nf,1,6,0,1\n"),
            "line 3: id \"1\" is freed with another size than it was allocated with");
  EXPECT_EQ(Events(head + "x,1,5,0,1\n"), "line 2: op is neither a (allocated) nor f (freed): \"x\"");
  EXPECT_EQ(Events(head + "a,1,5,0\n"), "line 2: 4 fields where the header has 5");
  EXPECT_EQ(Events(head + "a,1,5,0,1\na,2,5,0,\n"), "line 3: step is missing");
  EXPECT_EQ(Events(head + std::string(5000, 'a')), "line 2: line is longer than 4096");
  EXPECT_EQ(Events(head + std::string("a,1,5\0,0,1\na,2,5,0,1\n", 20)), "line 2: zero byte in the text");
}

TEST_F(Csv, RefusesBadLifetimesWithLineAndReason) {
  const std::string head = "id,lower,upper,size\n";
  EXPECT_EQ(Lifetimes("id,lower,size\n"), "line 1: missing column \"upper\"");
  EXPECT_EQ(Lifetimes(head + "1,5,5,1\n"), "line 2: ends before it begins");
  EXPECT_EQ(Lifetimes(head + "1,5,4,1\n"), "line 2: ends before it begins");
  EXPECT_EQ(Lifetimes(head + "1,0,4,0\n"), "line 2: size is zero");
  EXPECT_EQ(Lifetimes(head + "1,0,4,-1\n"), "line 2: size is negative");
  EXPECT_EQ(Lifetimes(head + "1,0,99999999999999999999,1\n"), "line 2: upper does not fit into 64 bits");
  EXPECT_EQ(Lifetimes(head + "1,0,4,1\n1,7,8,1\n"), "line 3: id \"1\" is given twice");
  EXPECT_EQ(Lifetimes(head + "1,-9223372036854775808,9223372036854775807,1\n"), "line 2: lifetime is too long");
  EXPECT_EQ(Lifetimes(head + "1,0,4,4611686018427387904\n2,0,4,1\n"), "line 3: sizes add up to more than 2^62 bytes");
  EXPECT_EQ(Lifetimes("id,lower,upper,size,alignment\n1,0,4,1,8\n").substr(0, 26), "line 1: column \"alignment\"");
  EXPECT_EQ(ReadLifetimeCsv("/nonexistent.csv").error().kind, FileError::Kind::kIo);
}

TEST_F(Csv, DetectsTheFormat) {
  EXPECT_EQ(*DetectCsv(File("op,id,bytes,stream,step\n")), CsvKind::kEvents);
  EXPECT_EQ(*DetectCsv(File("id,lower,upper,size\n")), CsvKind::kLifetimes);
  EXPECT_FALSE(DetectCsv(File("a,b\n")).ok());
}

TEST_F(Csv, WritesPlacements) {
  Problem problem;
  problem.requests = {{4, 0, 3, 0}, {8, 2, 9, 0}};
  EXPECT_EQ(WritePlacementCsv(folder_ / "out.csv", problem, {"b1", "b2"}, {{8, 0}, 12}, false), std::nullopt);
  EXPECT_EQ(Contents(folder_ / "out.csv"), "id,lower,upper,size,offset\nb1,0,3,4,8\nb2,2,9,8,0\n");
  EXPECT_NE(WritePlacementCsv(folder_ / "out.csv", problem, {}, {{8, 0}, 12}, false), std::nullopt) << "exists";
  EXPECT_EQ(WritePlacementCsv(folder_ / "out.csv", problem, {}, {{8, 0}, 12}, true), std::nullopt);
  EXPECT_TRUE(ReadLifetimeCsv(folder_ / "out.csv").ok()) << "further columns do not matter";
}

TEST(TraceProblem, ClipsAtTheWindow) {
  const TemporaryFolder folder;
  //          block  0    1    2    3    4
  // step 1:         a    a    a
  // step 2: 0          f              1
  //         1               f         a(3)
  //         2                         f(3)   a(4)
  SetContents(folder / "t.csv",
              "op,id,bytes,stream,step\na,p,10,0,1\na,q,20,0,1\na,r,30,0,1\n"
              "f,q,20,0,2\na,s,40,0,2\nf,s,40,0,2\nf,r,30,0,2\na,t,50,0,2\n");
  const auto trace = ReadEventCsv(folder / "t.csv");
  ASSERT_TRUE(trace.ok());
  const auto window = WindowOfStep(*trace);
  ASSERT_TRUE(window.has_value());
  const WindowProblem step = ProblemOfWindow(trace->events, *window);
  // p spans the window, q goes with its first event, r goes at its fourth, t outlives it.
  EXPECT_EQ(step.blocks, (std::vector<std::uint64_t>{0, 2, 3, 4}));
  EXPECT_EQ(step.problem.requests, (std::vector<Request>{{10, 0, 5, 0}, {30, 0, 3, 0}, {40, 1, 2, 0}, {50, 4, 5, 0}}));
  EXPECT_EQ(PeakLive(step.problem), 80u);
  EXPECT_FALSE(WindowOfStep(*trace, 3).has_value());
  EXPECT_EQ(ProblemOfWindow(trace->events, *WindowOfStep(*trace, 1)).problem.requests.size(), 3u);
}

TEST(TraceProblem, TheLastWholeStepIsNotACutOffOne) {
  Trace trace;
  const auto add = [&](std::uint32_t step, int count) {
    for (int k = 0; k < count; ++k) {
      trace.events.emplace_back();
      trace.steps.push_back(step);
    }
  };
  add(1, 300);
  add(2, 100);
  add(3, 100);
  add(4, 20);
  EXPECT_EQ(WindowOfStep(trace), (Window{400, 500}));
  add(4, 80);
  EXPECT_EQ(WindowOfStep(trace), (Window{500, 600}));
}

TEST(SharedData, TrainingStepsAreReadAndPlanned) {
  const std::string data = SharedData();
  if (data.empty()) GTEST_SKIP() << "no shared data: set STALLOC_SHARED_DATA to its folder";
  for (const auto& entry : std::filesystem::directory_iterator(data + "/training_traces")) {
    const auto trace = ReadEventCsv(entry.path().string());
    ASSERT_TRUE(trace.ok()) << trace.error().Text();
    const auto step = WindowOfStep(*trace);
    ASSERT_TRUE(step.has_value()) << entry.path();
    const Solution solution = Solve(ProblemOfWindow(trace->events, *step).problem, {.effort = 0});
    EXPECT_EQ(solution.error, "") << entry.path();
    EXPECT_LE(solution.placement.height_bytes, solution.lower_bound_bytes * 1.05) << entry.path();
  }
}

TEST(SharedData, MiniMallocsInstancesFitTheirCapacity) {
  const std::string data = SharedData();
  if (data.empty()) GTEST_SKIP() << "no shared data: set STALLOC_SHARED_DATA to its folder";
  for (const char* name : {"A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K"}) {
    auto table = ReadLifetimeCsv(data + "/minimalloc/" + name + ".1048576.csv");
    ASSERT_TRUE(table.ok()) << table.error().Text();
    table->problem.capacity_bytes = 1048576;
    // The deadline only ends a search that has gone wrong: each takes a fraction of a second.
    const Solution solution = Solve(table->problem, {.time_limit = std::chrono::minutes(2)});
    EXPECT_LE(solution.placement.height_bytes, table->problem.capacity_bytes) << name;
  }
}

}  // namespace
}  // namespace stalloc::planner
