// Recorder: takes every request of the process down, in order, without the serving path noticing.
//
// Each thread writes into a buffer of its own that only a background thread reads; that thread puts the events of all
// threads into one order and writes them into a trace file. The program may be killed at any moment: the file then
// lacks at most the last tenth of a second.
//
// It also names the call sites that it sees, for the file.
//
//   thread 1  ─ Record ─> [ring] ─┐
//   thread 2  ─ Record ─> [ring] ─┼─ every 5–40 ms ─> in order of `sequence` ─> TraceWriter, a block every 100 ms
//   ...                           ┘
#pragma once

#include <cstdint>
#include <string>

#include "planner/trace_event.h"

namespace stalloc::runtime {

class Recorder {
 public:
  // A thread's buffer: 56 bytes an event, memory only where it is touched.
  static constexpr std::uint32_t kEventsPerThread = 65536;

  struct Counts {
    std::uint64_t delivered = 0;  // to the file
    std::uint64_t dropped = 0;    // a buffer was full, or there was no memory for one
    std::uint64_t late = 0;       // delivered behind an event with a higher sequence
  };

  // How often the buffers are emptied: often while events come, so that they need not hold many; seldom when none do,
  // so that an idle process is left alone.
  struct Pace {
    int busy_ms = 5;
    int idle_ms = 40;
  };

  Recorder();
  explicit Recorder(Pace pace);
  // Stops. No thread may be recording any more: a process that serves keeps its recorder for ever.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Makes the trace file and starts the background thread, with every signal blocked. Returns false, says why in the
  // log and records nothing if either cannot be had. To be called once.
  bool Start(const std::string& trace_path);

  // The next number of the total order. To be drawn where the order is decided (under the device's lock). Any thread.
  std::uint64_t NextSequence() noexcept;

  // Takes the event down; `thread` and `time_ns` are filled in here. Any thread; after the thread's first event no lock
  // and no allocation, and no system call but, where a burst has half filled the buffer, one that wakes the background
  // thread. Does nothing before Start, after Stop, and once the file can take no more.
  void Record(const planner::TraceEvent& event) noexcept;
  bool recording() const noexcept;

  // Writes what was recorded and ends the background thread. If that does not answer in time (its file system hangs),
  // it is left alone: the end of a program must not hang on its trace.
  void Stop(int timeout_ms = 5000);

  // In the child after a fork, where there is no background thread: from here on nothing is recorded, and the parent's
  // file is left alone.
  void ForkedChild() noexcept;

  Counts counts() const noexcept;

 private:
  struct State;
  State* const state_;  // leaked where the background thread may still use it
};

}  // namespace stalloc::runtime
