// EventRing: one thread's events on their way to the recorder's background thread. One producer, one consumer, no lock.
//
// The producer owns `head_`, the consumer `tail_`; both only grow, and an event lies at its number modulo the capacity.
// When a thread ends, its ring passes to the next new thread: `owned` is the baton, taken by compare-and-swap.
#pragma once

#include <atomic>
#include <cstdint>

#include "planner/trace_event.h"
#include "runtime/base/lazy_array.h"

namespace stalloc::runtime {

class EventRing {
 public:
  // Throws std::bad_alloc. `capacity` is a power of two.
  explicit EventRing(std::uint32_t capacity) : events_(capacity), mask_(capacity - 1) {}

  enum class Pushed : std::uint8_t {
    kYes,
    kYesHalfFull,  // and the ring has just become half full: time for the consumer to come
    kNo,           // full, the event is lost
  };

  // The producer.
  Pushed Push(const planner::TraceEvent& event) noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    const bool at_half = head - seen_tail_ == (mask_ + 1) / 2;
    if (at_half || head - seen_tail_ > mask_) {
      seen_tail_ = tail_.load(std::memory_order_acquire);
      if (head - seen_tail_ > mask_) return Pushed::kNo;
    }
    planner::TraceEvent& slot = events_[head & mask_];
    slot = event;
    slot.thread = thread_ordinal_;
    head_.store(head + 1, std::memory_order_release);
    return at_half && head - seen_tail_ == (mask_ + 1) / 2 ? Pushed::kYesHalfFull : Pushed::kYes;
  }

  // The consumer: visits what is there. Gives room back now and then on the way, for a producer in a hurry.
  template <typename Visit>
  void Drain(Visit visit) {
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    while (tail != head) {
      visit(static_cast<const planner::TraceEvent&>(events_[tail & mask_]));
      if (++tail % 1024 == 0) tail_.store(tail, std::memory_order_release);
    }
    tail_.store(tail, std::memory_order_release);
  }

  // A thread makes the ring its own, from its first event on; false if another has it or has left it more than half
  // full.
  bool TryOwn(std::uint32_t thread_ordinal) noexcept {
    bool expected = false;
    if (!owned_.compare_exchange_strong(expected, true, std::memory_order_acquire)) return false;
    if (head_.load(std::memory_order_relaxed) - tail_.load(std::memory_order_acquire) > (mask_ + 1) / 2) {
      Disown();
      return false;
    }
    thread_ordinal_ = thread_ordinal;
    return true;
  }
  void Disown() noexcept { owned_.store(false, std::memory_order_release); }

  EventRing* next = nullptr;  // in the recorder's list

 private:
  LazyArray<planner::TraceEvent> events_;
  const std::uint64_t mask_;
  alignas(64) std::atomic<std::uint64_t> head_{0};
  std::uint64_t seen_tail_ = 0;  // the producer's last look at tail_, so that it seldom touches the consumer's line
  std::uint32_t thread_ordinal_ = 0;
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  std::atomic<bool> owned_{false};
};

}  // namespace stalloc::runtime
