#include "planner/trace_file.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>

#include "files.h"
#include "planner/whole_file.h"

namespace stalloc::planner {
namespace {

std::vector<TraceEvent> ExampleEvents(std::size_t count, std::uint64_t from = 0) {
  std::vector<TraceEvent> events(count);
  for (std::size_t k = 0; k < count; ++k) {
    const std::uint64_t n = from + k;
    TraceEvent& event = events[k];
    event.op = n % 2 == 0 ? TraceEvent::Op::kAllocate : TraceEvent::Op::kFree;
    event.served = static_cast<TraceEvent::Served>(n % 4);
    event.device = static_cast<std::uint8_t>(n % 3);
    event.flags = TraceEvent::kHasStream;
    event.stream = static_cast<std::uint32_t>(n % 5);
    event.thread = static_cast<std::uint32_t>(n % 7);
    event.sequence = n;
    event.block = n / 2;
    event.size_bytes = 512 * (n % 97 + 1);
    event.call_site = 0x9e3779b97f4a7c15u * (n % 31 + 1);
    event.time_ns = 1000 * n + n % 13;
  }
  return events;
}

// Where the blocks of a file end, by their headers: 48 bytes and `stored`.
std::vector<std::size_t> BlockEnds(const std::string& file) {
  std::vector<std::size_t> ends;
  for (std::size_t at = 0; at < file.size();) {
    std::uint32_t stored = 0;
    std::memcpy(&stored, file.data() + at + 24, sizeof(stored));
    ends.push_back(at += 48 + stored);
  }
  return ends;
}

std::string Written(const TemporaryFolder& folder, TraceEncoding encoding) {
  const std::string path = folder / "trace";
  auto writer = TraceWriter::Create(path, encoding);
  EXPECT_TRUE(writer.ok());
  EXPECT_EQ((*writer)->Append(ExampleEvents(100)), std::nullopt);
  EXPECT_EQ((*writer)->Append(ExampleEvents(1, 100)), std::nullopt);
  EXPECT_EQ((*writer)->Append(ExampleEvents(50, 101)), std::nullopt);
  return path;
}

class TraceFile : public testing::TestWithParam<TraceEncoding> {};

TEST_P(TraceFile, ComesBackAsWritten) {
  const TemporaryFolder folder;
  const auto trace = ReadTraceFile(Written(folder, GetParam()), TraceTail::kMustBeWhole);
  ASSERT_TRUE(trace.ok()) << trace.error().Text();
  EXPECT_EQ(trace->events, ExampleEvents(151));
  EXPECT_TRUE(trace->steps.empty());
}

// An older trace is recorded over; what is no trace, and what another process is recording, is not.
TEST_P(TraceFile, OnlyATraceIsRecordedOver) {
  const TemporaryFolder folder;
  const std::string path = Written(folder, GetParam());
  {
    auto writer = TraceWriter::Create(path, GetParam());
    ASSERT_TRUE(writer.ok()) << writer.error().Text();
    const auto second = TraceWriter::Create(path, GetParam());
    ASSERT_FALSE(second.ok());
    EXPECT_NE(second.error().Text().find(path + ": another process records into it"), std::string::npos);
    EXPECT_EQ((*writer)->Append(ExampleEvents(3)), std::nullopt);
  }
  EXPECT_EQ(ReadTraceFile(path, TraceTail::kMustBeWhole)->events.size(), 3u);

  SetContents(folder / "script.py", "import torch");
  const auto refused = TraceWriter::Create(folder / "script.py", GetParam());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().Text(), folder / "script.py" + ": holds something else, and is left as it is");
  EXPECT_EQ(Contents(folder / "script.py"), "import torch");
}

TEST_P(TraceFile, ATruncatedTailLosesOnlyTheLastBlock) {
  const TemporaryFolder folder;
  const std::string whole = Contents(Written(folder, GetParam()));
  const std::vector<std::size_t> ends = BlockEnds(whole);
  ASSERT_EQ(ends.size(), 3u);
  const std::size_t events_until[] = {0, 100, 101, 151};
  // Every length near an edge, some between.
  const auto near_edge = [&](std::size_t size) {
    return size < 60 ||
           std::any_of(ends.begin(), ends.end(), [&](std::size_t e) { return size + 3 > e && size < e + 50; });
  };
  for (std::size_t size = 0; size <= whole.size(); size += near_edge(size) ? 1 : 97) {
    SetContents(folder / "cut", std::string_view(whole).substr(0, size));
    const std::size_t blocks = std::upper_bound(ends.begin(), ends.end(), size) - ends.begin();
    const bool at_edge = size == 0 || (blocks > 0 && ends[blocks - 1] == size);
    const auto trace = ReadTraceFile(folder / "cut", TraceTail::kMayBeTruncated);
    ASSERT_TRUE(trace.ok()) << size << ": " << trace.error().Text();
    ASSERT_EQ(trace->events, ExampleEvents(events_until[blocks]));
    const auto strict = ReadTraceFile(folder / "cut", TraceTail::kMustBeWhole);
    ASSERT_EQ(strict.ok(), at_edge) << size;
    if (!at_edge) {
      EXPECT_EQ(strict.error().place, "byte " + std::to_string(blocks == 0 ? 0 : ends[blocks - 1]));
    }
  }
}

TEST_P(TraceFile, RefusesEveryFlippedBit) {
  const TemporaryFolder folder;
  const std::string whole = Contents(Written(folder, GetParam()));
  for (std::size_t byte = 0; byte < whole.size(); byte += byte < 48 ? 1 : 101) {
    std::string damaged = whole;
    damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << (byte % 8)));
    SetContents(folder / "damaged", damaged);
    EXPECT_FALSE(ReadTraceFile(folder / "damaged", TraceTail::kMustBeWhole).ok()) << "byte " << byte;
    const auto trace = ReadTraceFile(folder / "damaged", TraceTail::kMayBeTruncated);
    EXPECT_TRUE(!trace.ok() || trace->events.size() < 151) << "byte " << byte;
  }
}

INSTANTIATE_TEST_SUITE_P(Encodings, TraceFile, testing::Values(TraceEncoding::kRaw, TraceEncoding::kZstd));

TEST(TraceFileErrors, RefusesForeignAndReorderedFiles) {
  const TemporaryFolder folder;
  SetContents(folder / "foreign", "op,id,bytes,stream,step\na,0,1,0,1\na,0,1,0,1\na,0,1,0,1\n");
  EXPECT_EQ(ReadTraceFile(folder / "foreign", TraceTail::kMayBeTruncated).error().reason, "not a trace file");
  SetContents(folder / "short", "op");
  EXPECT_EQ(ReadTraceFile(folder / "short", TraceTail::kMayBeTruncated).error().reason, "not a trace file");
  EXPECT_EQ(ReadTraceFile(folder / "absent", TraceTail::kMayBeTruncated).error().kind, FileError::Kind::kIo);
  const std::string whole = Contents(Written(folder, TraceEncoding::kRaw));
  SetContents(folder / "missing", std::string_view(whole).substr(48 + 5600));
  EXPECT_EQ(ReadTraceFile(folder / "missing", TraceTail::kMustBeWhole).error().reason, "block 1 where block 0 belongs");
}

// What `check` says in a process to which folders can be closed: to root they cannot. nullopt: there is none to be had.
template <typename Check>
std::optional<bool> AsNobody(Check check) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
    ::_exit(check() ? 1 : 0);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) > 1) return std::nullopt;
  return WEXITSTATUS(status) == 1;
}

// A trace is written in place: what its folder allows is of no matter where the file is there. What is replaced as a
// whole needs room beside it.
TEST(TraceFileErrors, AFileInAFolderThatTakesNoneIsWrittenInPlace) {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  for (const char* name : {"trace", "readable"}) ASSERT_TRUE(TraceWriter::Create(folder / name).ok());
  fs::permissions(folder / "trace", fs::perms{0666});
  fs::permissions(folder / "readable", fs::perms{0444});
  fs::permissions(folder / ".", fs::perms{0555});
  const auto finds_obstacle = [&](const char* name) {
    return AsNobody([&] { return FindTraceObstacle(folder / name).has_value(); });
  };
  const auto cannot_write = [&](const char* name) {
    return AsNobody([&] { return !TraceWriter::Create(folder / name).ok(); });
  };
  const auto found = finds_obstacle("trace");
  if (!found) GTEST_SKIP() << "no process to which a folder can be closed";
  EXPECT_FALSE(*found);
  EXPECT_EQ(cannot_write("trace"), false);
  for (const char* name : {"readable", "new"}) {
    EXPECT_EQ(finds_obstacle(name), true) << name;
    EXPECT_EQ(cannot_write(name), true) << name;
  }
  EXPECT_EQ(AsNobody([&] { return FindObstacle(folder / "trace", kTraceBlockMagic).has_value(); }), true);
  fs::permissions(folder / ".", fs::perms{0755});
}

TEST(TraceFileErrors, FullDiskIsReportedAndTheFileStaysReadable) {
  auto writer = TraceWriter::Create("/dev/full");
  if (!writer.ok()) GTEST_SKIP() << "no /dev/full here";
  const auto failure = (*writer)->Append(ExampleEvents(10));
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->kind, FileError::Kind::kIo);
  EXPECT_TRUE((*writer)->Append(ExampleEvents(10)).has_value()) << "an error stays";
}

TEST(TraceFileErrors, LongAppendsBecomeSeveralBlocks) {
  const TemporaryFolder folder;
  const std::vector<TraceEvent> events = ExampleEvents(TraceWriter::kMaxBlockEvents + 3);
  {
    auto writer = TraceWriter::Create(folder / "long");
    ASSERT_TRUE(writer.ok());
    ASSERT_EQ((*writer)->Append(events), std::nullopt);
    ASSERT_EQ((*writer)->Append({}), std::nullopt);
  }
  EXPECT_EQ(BlockEnds(Contents(folder / "long")).size(), 2u);
  EXPECT_EQ(ReadTraceFile(folder / "long", TraceTail::kMustBeWhole)->events, events);
  EXPECT_LT(std::filesystem::file_size(folder / "long"), events.size() * sizeof(TraceEvent) / 4) << "compressed";
}

TEST(TraceFileErrors, SurvivesSigkill) {
  const TemporaryFolder folder;
  const std::string path = folder / "killed";
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto writer = TraceWriter::Create(path);
    for (std::uint64_t from = 0;; from += 1000) (void)(*writer)->Append(ExampleEvents(1000, from));
  }
  while (!std::filesystem::exists(path) || std::filesystem::file_size(path) < 100000) ::usleep(1000);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const auto trace = ReadTraceFile(path, TraceTail::kMayBeTruncated);
  ASSERT_TRUE(trace.ok()) << trace.error().Text();
  EXPECT_GE(trace->events.size(), 1000u);
  EXPECT_EQ(trace->events, ExampleEvents(trace->events.size()));
}

// A record and a wait between every four requests.
std::vector<TraceEvent> ExampleWithOrder(std::size_t count) {
  std::vector<TraceEvent> events;
  for (const TraceEvent& request : ExampleEvents(count)) {
    events.push_back(request);
    if (events.size() % 6 != 4) continue;
    for (const auto op : {TraceEvent::Op::kRecord, TraceEvent::Op::kWait}) {
      TraceEvent order = request;
      order.op = op;
      order.block = 0x7f0000001000 + request.sequence;
      order.size_bytes = 0;
      order.call_site = 0;
      order.stream += op == TraceEvent::Op::kWait ? 1 : 0;
      events.push_back(order);
    }
  }
  return events;
}

// Requests and order as they were appended.
std::vector<TraceEvent> EventsOf(const Trace& trace) {
  std::vector<TraceEvent> events;
  auto order = trace.order.begin();
  for (std::size_t k = 0; k <= trace.events.size(); ++k) {
    for (; order != trace.order.end() && order->before == k; ++order) events.push_back(order->event);
    if (k < trace.events.size()) events.push_back(trace.events[k]);
  }
  return events;
}

TEST(TraceFileOrder, IsKeptApartFromTheRequestsItStandsBetween) {
  const TemporaryFolder folder;
  const std::string path = folder / "ordered";
  auto writer = TraceWriter::Create(path);
  ASSERT_TRUE(writer.ok());
  ASSERT_EQ((*writer)->Append(ExampleWithOrder(10)), std::nullopt);
  const auto trace = ReadTraceFile(path, TraceTail::kMustBeWhole);
  ASSERT_TRUE(trace.ok()) << trace.error().Text();
  EXPECT_EQ(trace->events, ExampleEvents(10));
  ASSERT_EQ(trace->order.size(), 4u);
  const std::size_t before[] = {4, 4, 8, 8};
  for (std::size_t k = 0; k < 4; ++k) {
    EXPECT_EQ(trace->order[k].before, before[k]);
    EXPECT_EQ(trace->order[k].event.op, k % 2 == 0 ? TraceEvent::Op::kRecord : TraceEvent::Op::kWait);
  }
}

TEST(TraceFileNames, ComeBackWhateverIsInThem) {
  const TemporaryFolder folder;
  const std::string path = folder / "named";
  std::vector<CallSiteFrames> names;
  for (std::uint64_t site = 1; site <= 300; ++site)
    names.push_back({site * 0x9e3779b97f4a7c15u, {std::string(site * 100, 'x'), "", "a\tb\nc", "last"}});
  {
    auto writer = TraceWriter::Create(path, TraceEncoding::kRaw);
    ASSERT_TRUE(writer.ok());
    ASSERT_EQ((*writer)->AppendNames(names), std::nullopt);
    ASSERT_EQ((*writer)->Append(ExampleEvents(5)), std::nullopt);
    ASSERT_EQ((*writer)->AppendNames({}), std::nullopt);
    ASSERT_EQ((*writer)->AppendNames(std::span(names).first(1)), std::nullopt);
  }
  EXPECT_EQ(BlockEnds(Contents(path)).size(), 4u) << "4.5 MB of names are two blocks";
  const auto trace = ReadTraceFile(path, TraceTail::kMustBeWhole);
  ASSERT_TRUE(trace.ok()) << trace.error().Text();
  EXPECT_EQ(trace->events, ExampleEvents(5));
  ASSERT_EQ(trace->frames.size(), names.size());
  for (const CallSiteFrames& site : names) {
    EXPECT_EQ(trace->frames.at(site.call_site), (std::vector<std::string>{site.frames[0], "", "a b c", "last"}));
  }
  const std::string whole = Contents(path);
  for (std::size_t byte = 0; byte < whole.size(); byte += byte < 48 ? 1 : 1009) {
    std::string damaged = whole;
    damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << (byte % 8)));
    SetContents(folder / "damaged", damaged);
    EXPECT_FALSE(ReadTraceFile(folder / "damaged", TraceTail::kMustBeWhole).ok()) << "byte " << byte;
  }
}

// The program writes version 3 only; the files of the others stay as they were written by the programs of their time.
TEST(TraceFileGolden, ReadsVersion1) {
  const auto trace = ReadTraceFile(GoldenPath("trace-v1.bin"), TraceTail::kMustBeWhole);
  ASSERT_TRUE(trace.ok()) << trace.error().Text();
  EXPECT_EQ(trace->events, ExampleEvents(128));
  EXPECT_TRUE(trace->order.empty());
}

TEST(TraceFileGolden, ReadsVersion2) {
  const auto trace = ReadTraceFile(GoldenPath("trace-v2.bin"), TraceTail::kMustBeWhole);
  ASSERT_TRUE(trace.ok()) << trace.error().Text();
  EXPECT_EQ(EventsOf(*trace), ExampleWithOrder(64));
  EXPECT_TRUE(trace->frames.empty());
}

TEST(TraceFileGolden, ReadsVersion3) {
  const std::vector<CallSiteFrames> names = {{0x12, {"f (libf.so+0x3)", "main"}}, {~std::uint64_t{0}, {}}};
  if (const char* target = WriteGoldenTo()) {
    auto writer = TraceWriter::Create(std::string(target) + "/trace-v3.bin");
    ASSERT_TRUE(writer.ok());
    ASSERT_EQ((*writer)->Append(ExampleWithOrder(64)), std::nullopt);
    ASSERT_EQ((*writer)->AppendNames(names), std::nullopt);
    GTEST_SKIP() << "golden file written";
  }
  const auto trace = ReadTraceFile(GoldenPath("trace-v3.bin"), TraceTail::kMustBeWhole);
  ASSERT_TRUE(trace.ok()) << trace.error().Text();
  EXPECT_EQ(EventsOf(*trace), ExampleWithOrder(64));
  ASSERT_EQ(trace->frames.size(), names.size());
  for (const CallSiteFrames& site : names) EXPECT_EQ(trace->frames.at(site.call_site), site.frames);
}

}  // namespace
}  // namespace stalloc::planner
