#include "runtime/recorder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <set>
#include <span>
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

// A sink that keeps what it gets.
struct Kept {
  std::mutex mutex;
  std::vector<TraceEvent> events;

  Recorder::Sink Sink() {
    return [this](std::span<const TraceEvent> batch) {
      const std::lock_guard lock(mutex);
      events.insert(events.end(), batch.begin(), batch.end());
    };
  }
};

std::string TracePath(const char* name) {
  return ::testing::TempDir() + "stalloc_" + name + "." + std::to_string(::getpid()) + ".trace";
}

std::vector<TraceEvent> ReadAll(const std::string& path, bool* truncated) {
  auto reader = planner::TraceReader::Open(path, planner::TraceTail::kMayBeTruncated);
  std::vector<TraceEvent> all;
  if (!reader) {
    ADD_FAILURE() << reader.error().Text();
    return all;
  }
  std::vector<TraceEvent> block;
  for (;;) {
    auto more = (*reader)->Next(&block);
    if (!more) ADD_FAILURE() << more.error().Text();
    if (!more || !*more) break;
    all.insert(all.end(), block.begin(), block.end());
  }
  *truncated = (*reader)->Truncated();
  return all;
}

TEST(Recorder, EventsReachTheSinkInOrder) {
  Kept kept;
  Recorder recorder;
  recorder.SetSink(kept.Sink());
  ASSERT_TRUE(recorder.Start());
  constexpr std::uint64_t kEvents = 1000;
  for (std::uint64_t i = 0; i < kEvents; ++i) recorder.Record(Event(recorder.NextSequence()));
  ASSERT_TRUE(recorder.Flush());
  ASSERT_EQ(kept.events.size(), kEvents);
  for (std::uint64_t i = 0; i < kEvents; ++i) EXPECT_EQ(kept.events[i], Event(i));
  EXPECT_EQ(recorder.counts().delivered, kEvents);
}

TEST(Recorder, ManyThreadsMakeOneOrder) {
  Kept kept;
  Recorder recorder;
  recorder.SetSink(kept.Sink());
  ASSERT_TRUE(recorder.Start());
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
  ASSERT_EQ(kept.events.size(), std::size_t{kThreads} * kEvents);
  std::set<std::uint32_t> ordinals;
  std::uint64_t out_of_order = 0;
  for (std::size_t i = 0; i < kept.events.size(); ++i) {
    out_of_order += kept.events[i].sequence != i ? 1 : 0;
    ordinals.insert(kept.events[i].thread);
  }
  EXPECT_EQ(ordinals.size(), std::size_t{kThreads});
  if (counts.late == 0) {
    EXPECT_EQ(out_of_order, 0U);
  }
}

// Threads come and go: the buffers of those that ended are used again, and nothing is lost on the way.
TEST(Recorder, ThreadsThatEndHandTheirBufferOn) {
  Kept kept;
  Recorder recorder;
  recorder.SetSink(kept.Sink());
  ASSERT_TRUE(recorder.Start());
  constexpr std::uint64_t kThreads = 300;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    std::thread([&] { recorder.Record(Event(recorder.NextSequence())); }).join();
  }
  recorder.Stop();
  ASSERT_EQ(kept.events.size(), kThreads);
  for (std::uint64_t t = 0; t < kThreads; ++t) EXPECT_EQ(kept.events[t].thread, t);
}

TEST(Recorder, NothingIsRecordedBeforeStartAndAfterStop) {
  Kept kept;
  Recorder recorder;
  recorder.SetSink(kept.Sink());
  recorder.Record(Event(0));
  ASSERT_TRUE(recorder.Start());
  EXPECT_TRUE(recorder.recording());
  recorder.Record(Event(recorder.NextSequence()));
  recorder.Stop();
  EXPECT_FALSE(recorder.recording());
  recorder.Record(Event(recorder.NextSequence()));
  recorder.Stop();
  EXPECT_FALSE(recorder.Flush());
  EXPECT_EQ(kept.events.size(), 1U);
}

TEST(Recorder, WithoutSinkAndFileThereIsNoThread) {
  Recorder recorder;
  EXPECT_FALSE(recorder.Start());
  EXPECT_FALSE(recorder.recording());
  Recorder other;
  EXPECT_FALSE(other.Start("/nonexistent-directory/trace"));
}

TEST(Recorder, AFullBufferDropsAndCounts) {
  Kept kept;
  Recorder recorder;
  std::mutex gate;
  std::atomic<bool> sink_entered{false};
  recorder.SetSink([&, keep = kept.Sink()](std::span<const TraceEvent> batch) {
    sink_entered = true;
    const std::lock_guard lock(gate);
    keep(batch);
  });
  std::uint64_t recorded = 1;
  {
    const std::lock_guard lock(gate);  // the background thread cannot go on
    ASSERT_TRUE(recorder.Start());
    recorder.Record(Event(recorder.NextSequence()));
    while (!sink_entered) std::this_thread::yield();
    for (std::uint32_t i = 0; i < Recorder::kEventsPerThread + 100; ++i, ++recorded) {
      recorder.Record(Event(recorder.NextSequence()));
    }
    EXPECT_EQ(recorder.counts().dropped, 100U);
  }
  recorder.Stop();
  EXPECT_EQ(recorder.counts().delivered + recorder.counts().dropped, recorded);
  EXPECT_EQ(kept.events.size(), recorder.counts().delivered);
}

// A burst must not wait for the background thread to come by itself, which it does here only after a minute.
TEST(Recorder, ABurstWakesTheBackgroundThread) {
  Recorder recorder(Recorder::Pace{.busy_ms = 60000, .idle_ms = 60000});
  std::atomic<std::uint64_t> seen{0};
  recorder.SetSink([&](std::span<const TraceEvent> batch) { seen += batch.size(); });
  ASSERT_TRUE(recorder.Start());
  std::this_thread::sleep_for(milliseconds(50));  // it is asleep by now
  const auto record = [&](std::uint32_t events) {
    for (std::uint32_t i = 0; i < events; ++i) recorder.Record(Event(recorder.NextSequence()));
  };
  record(Recorder::kEventsPerThread / 2);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(seen, 0U);
  record(1);
  for (int i = 0; i < 1000 && seen == 0; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_GE(seen, Recorder::kEventsPerThread / 2);
  recorder.Stop();
  EXPECT_EQ(recorder.counts().dropped, 0U);
}

// In a process of its own, because what such a recorder leaves behind stays behind.
TEST(Recorder, ASinkThatHangsDoesNotHangTheEnd) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::mutex gate;
    std::atomic<bool> sink_entered{false};
    gate.lock();
    {
      Recorder recorder;
      recorder.SetSink([&](std::span<const TraceEvent>) {
        sink_entered = true;
        gate.lock();
      });
      if (!recorder.Start()) ::_exit(1);
      recorder.Record(Event(recorder.NextSequence()));
      while (!sink_entered) std::this_thread::yield();
      recorder.Stop(50);
      if (recorder.recording()) ::_exit(2);
    }
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
  bool truncated = true;
  const std::vector<TraceEvent> events = ReadAll(path, &truncated);
  EXPECT_FALSE(truncated);
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
  std::remove(path.c_str());
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

  bool truncated = false;
  const std::vector<TraceEvent> events = ReadAll(path, &truncated);
  EXPECT_GE(events.size(), must_be_there);
  for (std::size_t i = 0; i < events.size(); ++i) ASSERT_EQ(events[i].sequence, i);
  std::remove(path.c_str());
}

// The child of a fork has no background thread: recording, flushing and stopping must neither hang nor touch the file.
TEST(Recorder, AForkedChildIsSilent) {
  const std::string path = TracePath("forked");
  Recorder recorder;
  ASSERT_TRUE(recorder.Start(path));
  recorder.Record(Event(recorder.NextSequence()));
  const pid_t child = ::fork();
  if (child == 0) {
    recorder.ForkedChild();
    recorder.Record(Event(recorder.NextSequence()));
    if (recorder.recording() || recorder.Flush(100)) ::_exit(1);
    recorder.Stop();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  recorder.Record(Event(recorder.NextSequence()));
  recorder.Stop();
  bool truncated = true;
  EXPECT_EQ(ReadAll(path, &truncated).size(), 2U);
  std::remove(path.c_str());
}

// The program's signal handlers never run on the background thread.
TEST(Recorder, TheThreadHasEverySignalBlocked) {
  Recorder recorder;
  std::atomic<bool> blocked{false};
  recorder.SetSink([&](std::span<const TraceEvent>) {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    blocked = sigismember(&mask, SIGTERM) == 1 && sigismember(&mask, SIGINT) == 1 && sigismember(&mask, SIGUSR1) == 1;
  });
  ASSERT_TRUE(recorder.Start());
  recorder.Record(Event(recorder.NextSequence()));
  recorder.Stop();
  EXPECT_TRUE(blocked);
}

}  // namespace
}  // namespace stalloc::runtime
