// EventOrder: puts the events of several threads, each in order, into the one order of their sequence numbers.
//
// A number may be drawn and its event not yet written (its thread was interrupted), so an event is held back while a
// lower number is missing. Not for ever, because an event may have been dropped: what was there `patience` rounds ago
// goes on, whatever is missing before it. Should a missing event still come, it is handed on at once and counted as
// late.
//
// One thread; allocates.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/trace_event.h"

namespace stalloc::runtime {

class EventOrder {
 public:
  explicit EventOrder(std::size_t patience) : highest_(patience) {}

  void Add(const planner::TraceEvent& event) { waiting_.push_back(event); }

  // Ends a round: calls emit(span) with the events whose turn it is, if there are any; with `all`, with every one.
  template <typename Emit>
  void EndRound(bool all, Emit emit) {
    std::sort(waiting_.begin(), waiting_.end(), [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
    std::uint64_t& highest = highest_[round_++ % highest_.size()];
    const std::uint64_t due = highest;  // of the round `patience` rounds ago
    if (!waiting_.empty()) highest = std::max(waiting_.back().sequence, due);
    std::size_t ready = 0;
    for (; ready < waiting_.size(); ++ready) {
      const std::uint64_t sequence = waiting_[ready].sequence;
      if (sequence > next_ && sequence > due && !all) break;
      if (sequence < next_) {
        ++late_;
      } else {
        next_ = sequence + 1;
      }
    }
    if (ready == 0) return;
    emit(std::span<const planner::TraceEvent>(waiting_.data(), ready));
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(ready));
  }

  std::uint64_t late() const { return late_; }

 private:
  std::vector<planner::TraceEvent> waiting_;
  std::vector<std::uint64_t> highest_;  // highest number that was waiting in each of the last rounds
  std::uint64_t round_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t late_ = 0;
};

}  // namespace stalloc::runtime
