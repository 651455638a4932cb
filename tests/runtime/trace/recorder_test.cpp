#include "runtime/trace/recorder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "planner/trace_file.h"

namespace stalloc::runtime {
namespace {

using planner::TraceEvent;
using std::chrono::milliseconds;

TraceEvent Event(std::uint64_t sequence) {
  TraceEvent event;
  event.sequence = sequence;
  event.block = sequence + 1;
  event.size_bytes = 512 * (sequence + 1);
  return event;
}

std::string TracePath(const char* name) {
  return ::testing::TempDir() + "stalloc_" + name + "." + std::to_string(::getpid()) + ".trace";
}

std::vector<TraceEvent> ReadAll(const std::string& path, planner::TraceTail tail = planner::TraceTail::kMustBeWhole) {
  auto trace = planner::ReadTraceFile(path, tail);
  std::remove(path.c_str());
  if (trace) return std::move(trace->events);
  ADD_FAILURE() << trace.error().Text();
  return {};
}

// A named pipe in place of the file: what nobody reads keeps the background thread from going on.
class Pipe {
 public:
  explicit Pipe(const char* name) : path_(TracePath(name)) {
    EXPECT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    end_ = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK);
    EXPECT_GE(end_, 0);
    ::fcntl(end_, F_SETPIPE_SZ, 4096);
  }
  ~Pipe() {
    ::close(end_);
    std::remove(path_.c_str());
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  const std::string& path() const { return path_; }

  void WaitUntilFull() const {
    for (int bytes = 0; bytes < 4096; std::this_thread::sleep_for(milliseconds(1))) ::ioctl(end_, FIONREAD, &bytes);
  }

  // Until the writer closes it.
  void ReadToTheEnd() const {
    char buffer[4096];
    for (;;) {
      const ssize_t got = ::read(end_, buffer, sizeof(buffer));
      if (got == 0) return;
      if (got < 0) std::this_thread::sleep_for(milliseconds(1));
    }
  }

 private:
  const std::string path_;
  int end_ = -1;
};

// Events that do not compress, more than a pipe holds; returns how many once the background thread hangs on them.
std::uint64_t Block(Recorder& recorder, const Pipe& pipe) {
  constexpr std::uint64_t kEvents = 2000;
  std::mt19937_64 random(1);
  for (std::uint64_t i = 0; i < kEvents; ++i) {
    TraceEvent event = Event(recorder.NextSequence());
    event.call_site = random();
    recorder.Record(event);
  }
  while (recorder.counts().delivered < kEvents) std::this_thread::yield();
  pipe.WaitUntilFull();
  return kEvents;
}

TEST(Recorder, ManyThreadsMakeOneOrder) {
  const std::string path = TracePath("threads");
  Recorder recorder;
  ASSERT_TRUE(recorder.Start(path));
  constexpr int kThreads = 6;
  constexpr int kEvents = 20000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEvents; ++i) recorder.Record(Event(recorder.NextSequence()));
    });
  }
  for (std::thread& thread : threads) thread.join();
  recorder.Stop();
  const Recorder::Counts counts = recorder.counts();
  EXPECT_EQ(counts.dropped, 0U);
  EXPECT_EQ(counts.delivered, std::uint64_t{kThreads} * kEvents);
  const std::vector<TraceEvent> events = ReadAll(path);
  ASSERT_EQ(events.size(), std::size_t{kThreads} * kEvents);
  std::set<std::uint32_t> ordinals;
  std::uint64_t out_of_order = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    out_of_order += events[i].sequence != i ? 1 : 0;
    ordinals.insert(events[i].thread);
  }
  EXPECT_EQ(ordinals.size(), std::size_t{kThreads});
  if (counts.late == 0) {
    EXPECT_EQ(out_of_order, 0U);
  }
}

// Threads come and go: the buffers of those that ended are used again, and nothing is lost on the way.
TEST(Recorder, ThreadsThatEndHandTheirBufferOn) {
  const std::string path = TracePath("hand_on");
  Recorder recorder;
  ASSERT_TRUE(recorder.Start(path));
  constexpr std::uint64_t kThreads = 300;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    std::thread([&] { recorder.Record(Event(recorder.NextSequence())); }).join();
  }
  recorder.Stop();
  const std::vector<TraceEvent> events = ReadAll(path);
  ASSERT_EQ(events.size(), kThreads);
  for (std::uint64_t t = 0; t < kThreads; ++t) EXPECT_EQ(events[t].thread, t);
}

TEST(Recorder, NothingIsRecordedBeforeStartAndAfterStop) {
  const std::string path = TracePath("between");
  Recorder recorder;
  recorder.Record(Event(0));
  ASSERT_TRUE(recorder.Start(path));
  EXPECT_TRUE(recorder.recording());
  recorder.Record(Event(recorder.NextSequence()));
  recorder.Stop();
  EXPECT_FALSE(recorder.recording());
  recorder.Record(Event(recorder.NextSequence()));
  recorder.Stop();
  EXPECT_EQ(ReadAll(path).size(), 1U);
}

TEST(Recorder, WithoutAFileNothingIsRecorded) {
  Recorder recorder;
  EXPECT_FALSE(recorder.Start("/nonexistent-directory/trace"));
  EXPECT_FALSE(recorder.recording());
}

TEST(Recorder, AFullDiskEndsTheTraceAndNotTheProgram) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  Recorder recorder;
  ASSERT_TRUE(recorder.Start("/dev/full"));
  recorder.Record(Event(recorder.NextSequence()));
  while (recorder.recording()) std::this_thread::sleep_for(milliseconds(1));
  recorder.Record(Event(recorder.NextSequence()));
  recorder.Stop();
  EXPECT_EQ(recorder.counts().delivered, 1U);
}

TEST(Recorder, AFullBufferDropsAndCounts) {
  const Pipe pipe("full_buffer");
  Recorder recorder;
  ASSERT_TRUE(recorder.Start(pipe.path()));
  std::uint64_t recorded = Block(recorder, pipe);
  for (std::uint32_t i = 0; i < Recorder::kEventsPerThread + 100; ++i, ++recorded) {
    recorder.Record(Event(recorder.NextSequence()));
  }
  EXPECT_EQ(recorder.counts().dropped, 100U);
  std::thread reader([&] { pipe.ReadToTheEnd(); });
  recorder.Stop();
  reader.join();
  EXPECT_EQ(recorder.counts().delivered + recorder.counts().dropped, recorded);
}

// A burst must not wait for the background thread to come by itself, which it does here only after a minute.
TEST(Recorder, ABurstWakesTheBackgroundThread) {
  Recorder recorder(Recorder::Pace{.busy_ms = 60000, .idle_ms = 60000});
  ASSERT_TRUE(recorder.Start("/dev/null"));
  std::this_thread::sleep_for(milliseconds(50));  // it is asleep by now
  const auto record = [&](std::uint32_t events) {
    for (std::uint32_t i = 0; i < events; ++i) recorder.Record(Event(recorder.NextSequence()));
  };
  const auto seen = [&] { return recorder.counts().delivered; };
  record(Recorder::kEventsPerThread / 2);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(seen(), 0U);
  record(1);
  for (int i = 0; i < 1000 && seen() == 0; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_GE(seen(), Recorder::kEventsPerThread / 2);
  recorder.Stop();
  EXPECT_EQ(recorder.counts().dropped, 0U);
}

// In a process of its own, because what such a recorder leaves behind stays behind.
TEST(Recorder, AFileThatHangsDoesNotHangTheEnd) {
  const pid_t child = ::fork();
  if (child == 0) {
    const Pipe pipe("hangs");
    {
      Recorder recorder;
      if (!recorder.Start(pipe.path())) ::_exit(1);
      Block(recorder, pipe);
      recorder.Stop(50);
      if (recorder.recording()) ::_exit(2);
    }
    std::remove(pipe.path().c_str());
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(Recorder, TheFileHoldsWhatWasRecorded) {
  const std::string path = TracePath("whole");
  Recorder recorder;
  ASSERT_TRUE(recorder.Start(path));
  constexpr std::uint64_t kEvents = 50000;
  for (std::uint64_t i = 0; i < kEvents; ++i) recorder.Record(Event(recorder.NextSequence()));
  recorder.Stop();
  EXPECT_EQ(recorder.counts().delivered, kEvents);
  const std::vector<TraceEvent> events = ReadAll(path);
  ASSERT_EQ(events.size(), kEvents);
  std::uint64_t before = 0;
  for (std::uint64_t i = 0; i < kEvents; ++i) {
    TraceEvent expected = Event(i);
    expected.time_ns = events[i].time_ns;
    EXPECT_EQ(events[i], expected);
    EXPECT_GE(events[i].time_ns, before);
    before = events[i].time_ns;
  }
  EXPECT_GT(before, 0U);
}

// A child records without pause and says how far it is; it is killed in the middle. What it had recorded half a second
// before is in the file, in order and without a gap.
TEST(Recorder, AKilledProgramLosesOnlyTheLastMoment) {
  const std::string path = TracePath("killed");
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    auto* recorder = new Recorder;
    if (!recorder->Start(path)) ::_exit(2);
    for (std::uint64_t i = 0;; ++i) {
      recorder->Record(Event(recorder->NextSequence()));
      if (i % 512 != 511) continue;
      const std::uint64_t done = i + 1;
      if (::write(ends[1], &done, sizeof(done)) != sizeof(done)) ::_exit(3);
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  ::close(ends[1]);
  std::uint64_t recorded = 0;
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < milliseconds(400)) {
    ASSERT_EQ(::read(ends[0], &recorded, sizeof(recorded)), static_cast<ssize_t>(sizeof(recorded)));
  }
  const std::uint64_t must_be_there = recorded;
  std::this_thread::sleep_for(milliseconds(500));
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ::close(ends[0]);
  ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself, with " << WEXITSTATUS(status);

  const std::vector<TraceEvent> events = ReadAll(path, planner::TraceTail::kMayBeTruncated);
  EXPECT_GE(events.size(), must_be_there);
  for (std::size_t i = 0; i < events.size(); ++i) ASSERT_EQ(events[i].sequence, i);
}

// The child of a fork has no background thread: recording and stopping must neither hang nor touch the file.
TEST(Recorder, AForkedChildIsSilent) {
  const std::string path = TracePath("forked");
  Recorder recorder;
  ASSERT_TRUE(recorder.Start(path));
  recorder.Record(Event(recorder.NextSequence()));
  const pid_t child = ::fork();
  if (child == 0) {
    recorder.ForkedChild();
    recorder.Record(Event(recorder.NextSequence()));
    if (recorder.recording()) ::_exit(1);
    recorder.Stop();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  recorder.Record(Event(recorder.NextSequence()));
  recorder.Stop();
  EXPECT_EQ(ReadAll(path).size(), 2U);
}

// What a thread's status says of `name`.
std::string StatusOf(const std::filesystem::path& task, const std::string& name) {
  std::ifstream status(task / "status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name + ":\t")) return line.substr(name.size() + 2);
  return {};
}

// The program's signal handlers never run on the background thread.
TEST(Recorder, TheThreadHasEverySignalBlocked) {
  Recorder recorder;
  ASSERT_TRUE(recorder.Start("/dev/null"));
  std::string blocked;
  while (blocked.empty()) {  // until it has its name
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
      if (StatusOf(task, "Name") == "stalloc-record") blocked = StatusOf(task, "SigBlk");
  }
  recorder.Stop();
  const std::uint64_t mask = std::stoull(blocked, nullptr, 16);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) EXPECT_TRUE(mask >> (signal - 1) & 1) << signal;
}

}  // namespace
}  // namespace stalloc::runtime
