#include "runtime/trace/recorder.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "planner/trace_file.h"
#include "runtime/base/log.h"
#include "trace/event_order.h"
#include "trace/event_ring.h"
#include "trace/site_names.h"

#include "base/signals_blocked.h"

namespace stalloc::runtime {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// What a program that is killed may lose.
constexpr milliseconds kBlockInterval{100};
constexpr std::size_t kBlockEvents = 16384;

// What may be spent on the names of call sites each time that the buffers are emptied, and in the end: they wait behind
// the events, and a program's end waits for them.
constexpr milliseconds kNamingARound{4};
constexpr milliseconds kNamingAtTheEnd{1000};

// An event is written within microseconds of drawing its number, unless its thread was interrupted in between.
constexpr std::size_t kPatienceRounds = 4;

}  // namespace

struct Recorder::State {
  // The serving path.
  std::atomic<bool> recording{false};
  Clock::time_point start;
  pthread_key_t ring_of_thread{};
  bool has_key = false;
  std::atomic<std::uint64_t> next_sequence{0};
  std::atomic<std::uint64_t> dropped{0};
  std::atomic<std::uint32_t> threads_seen{0};
  std::atomic<EventRing*> rings{nullptr};  // all of them, newest first
  std::atomic<bool> hurry{false};          // one of them is half full

  // The background thread and those who wait for it.
  Pace pace;
  std::mutex mutex;
  std::condition_variable wake;  // it has something to do at once
  std::condition_variable end;   // it has stopped
  bool stopping = false;
  bool stopped = false;
  std::thread* thread = nullptr;
  // The thread is in the parent of a fork or does not answer: nothing that it uses may be waited for or freed.
  std::atomic<bool> abandoned{false};
  std::atomic<std::uint64_t> delivered{0};
  std::atomic<std::uint64_t> late{0};

  // The background thread alone.
  std::unique_ptr<planner::TraceWriter> file;
  bool failed = false;  // the file takes no more, or there is no memory
  EventOrder order{kPatienceRounds};
  std::vector<planner::TraceEvent> block;  // delivered, not yet in the file
  Clock::time_point block_began;
  SiteNames names;

  EventRing* RingOfThisThread() noexcept;
  EventRing* AdoptRing() noexcept;
  void Run() noexcept;
  bool DrainAll(bool all);
  void Deliver(std::span<const planner::TraceEvent> events);
  void WriteBlock();
  void WriteNames();
  void Fail(const std::string& reason);
};

EventRing* Recorder::State::RingOfThisThread() noexcept {
  auto* ring = static_cast<EventRing*>(pthread_getspecific(ring_of_thread));
  return ring != nullptr ? ring : AdoptRing();
}

// The thread's first event: takes over the ring of a thread that has ended, or makes one.
EventRing* Recorder::State::AdoptRing() noexcept {
  const std::uint32_t ordinal = threads_seen.fetch_add(1, std::memory_order_relaxed);
  EventRing* ring = rings.load(std::memory_order_acquire);
  while (ring != nullptr && !ring->TryOwn(ordinal)) ring = ring->next;
  if (ring == nullptr) {
    try {
      ring = new EventRing(kEventsPerThread);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    ring->TryOwn(ordinal);
    ring->next = rings.load(std::memory_order_relaxed);
    while (!rings.compare_exchange_weak(ring->next, ring, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }
  if (pthread_setspecific(ring_of_thread, ring) == 0) return ring;
  ring->Disown();
  return nullptr;
}

bool Recorder::State::DrainAll(bool all) {
  bool any = false;
  for (EventRing* ring = rings.load(std::memory_order_acquire); ring != nullptr; ring = ring->next) {
    ring->Drain([&](const planner::TraceEvent& event) {
      order.Add(event);
      any = true;
    });
  }
  order.EndRound(all, [&](std::span<const planner::TraceEvent> events) { Deliver(events); });
  late.store(order.late(), std::memory_order_relaxed);
  if (all || block.size() >= kBlockEvents || (!block.empty() && Clock::now() - block_began >= kBlockInterval)) {
    WriteBlock();
  }
  names.Name(all ? kNamingAtTheEnd : kNamingARound);
  if (all) WriteNames();
  return any;
}

void Recorder::State::Deliver(std::span<const planner::TraceEvent> events) {
  if (block.empty()) block_began = Clock::now();
  block.insert(block.end(), events.begin(), events.end());
  for (const planner::TraceEvent& event : events) names.Saw(event.call_site);
  delivered.fetch_add(events.size(), std::memory_order_relaxed);
}

void Recorder::State::WriteBlock() {
  if (block.empty()) return;
  if (const auto error = file->Append(block)) Fail(error->Text());
  block.clear();
  WriteNames();
}

void Recorder::State::WriteNames() {
  const std::vector<planner::CallSiteFrames> named = names.TakeNamed();
  if (named.empty() || failed) return;
  if (const auto error = file->AppendNames(named)) Fail(error->Text());
}

void Recorder::State::Fail(const std::string& reason) {
  failed = true;
  recording.store(false, std::memory_order_relaxed);
  try {
    LogError("the trace ends here: " + reason);
  } catch (const std::exception&) {  // the host has no memory for the line
  }
}

void Recorder::State::Run() noexcept {
  pthread_setname_np(pthread_self(), "stalloc-record");
  milliseconds pause{pace.busy_ms};
  std::unique_lock lock(mutex);
  while (!stopped) {
    const bool last = stopping;
    lock.unlock();
    bool any = false;
    try {
      any = DrainAll(last);
    } catch (const std::exception& error) {
      Fail(error.what());
    }
    pause = milliseconds(any ? pace.busy_ms : std::min(static_cast<int>(pause.count()) * 2, pace.idle_ms));
    lock.lock();
    stopped = last || failed;
    if (!stopped) wake.wait_for(lock, pause, [&] { return stopping || hurry.load(std::memory_order_relaxed); });
    hurry.store(false, std::memory_order_relaxed);
  }
  end.notify_all();
}

Recorder::Recorder() : Recorder(Pace{}) {}

Recorder::Recorder(Pace pace) : state_(new State) {
  state_->pace = pace;
  state_->has_key =
      pthread_key_create(&state_->ring_of_thread, [](void* ring) { static_cast<EventRing*>(ring)->Disown(); }) == 0;
}

Recorder::~Recorder() {
  Stop();
  if (state_->abandoned) return;
  if (state_->has_key) pthread_key_delete(state_->ring_of_thread);
  for (EventRing* ring = state_->rings.load(); ring != nullptr;) delete std::exchange(ring, ring->next);
  delete state_;
}

bool Recorder::Start(const std::string& trace_path) {
  State& state = *state_;
  if (!state.has_key || state.thread != nullptr) return false;
  auto file = planner::TraceWriter::Create(trace_path);
  if (!file) {
    LogError("no trace is kept: " + file.error().Text());
    return false;
  }
  state.file = std::move(*file);
  state.start = Clock::now();
  try {
    const SignalsBlocked guard;
    state.thread = new std::thread([&state] { state.Run(); });
  } catch (const std::exception& error) {
    LogError("no trace is kept: " + trace_path + ": no thread to write it: " + error.what());
    return false;
  }
  state.recording.store(true, std::memory_order_release);
  return true;
}

std::uint64_t Recorder::NextSequence() noexcept {
  return state_->next_sequence.fetch_add(1, std::memory_order_relaxed);
}

bool Recorder::recording() const noexcept { return state_->recording.load(std::memory_order_acquire); }

void Recorder::Record(const planner::TraceEvent& event) noexcept {
  if (!recording()) return;
  auto pushed = EventRing::Pushed::kNo;
  if (EventRing* ring = state_->RingOfThisThread()) {
    planner::TraceEvent stamped = event;
    stamped.time_ns = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - state_->start).count());
    pushed = ring->Push(stamped);
  }
  if (pushed == EventRing::Pushed::kYes) return;
  if (pushed == EventRing::Pushed::kNo) {
    state_->dropped.fetch_add(1, std::memory_order_relaxed);
  } else {
    // Without the lock, which the background thread may hold: should the wake-up be missed, it comes by itself soon.
    state_->hurry.store(true, std::memory_order_relaxed);
    state_->wake.notify_one();
  }
}

void Recorder::Stop(int timeout_ms) {
  State& state = *state_;
  if (state.thread == nullptr || state.abandoned) return;
  {
    std::unique_lock lock(state.mutex);
    state.recording.store(false, std::memory_order_relaxed);
    state.stopping = true;
    state.wake.notify_one();
    if (!state.end.wait_for(lock, milliseconds(timeout_ms), [&] { return state.stopped; })) {
      state.abandoned = true;
      lock.unlock();
      LogError("the recorder's thread does not answer: the end of the trace is missing");
      return;
    }
  }
  state.thread->join();
  delete std::exchange(state.thread, nullptr);
  state.file.reset();
}

void Recorder::ForkedChild() noexcept {
  state_->recording.store(false, std::memory_order_relaxed);
  state_->abandoned = true;
}

Recorder::Counts Recorder::counts() const noexcept {
  return Counts{.delivered = state_->delivered.load(std::memory_order_relaxed),
                .dropped = state_->dropped.load(std::memory_order_relaxed),
                .late = state_->late.load(std::memory_order_relaxed)};
}

}  // namespace stalloc::runtime
