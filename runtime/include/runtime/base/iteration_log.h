// IterationLog: what each iteration cost, by the iterations that the plan in force goes through.
//
// Iterations before the first plan were not told apart when they happened; how many they were is reckoned from the
// requests made till then. Under the device's lock; never allocates.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/base/time_spent.h"

namespace stalloc::runtime {

class IterationLog {
 public:
  // Running totals at an iteration's boundary.
  struct Totals {
    std::uint64_t requests = 0;
    std::uint64_t planned = 0;
    std::uint64_t map_calls = 0;
    std::uint64_t waits = 0;
    SpentNs spent;

    Totals operator-(const Totals& before) const {
      return {requests - before.requests, planned - before.planned, map_calls - before.map_calls, waits - before.waits,
              spent - before.spent};
    }
  };
  struct Iteration {
    std::uint64_t number = 0;  // since the program's start, from 1
    Totals spent;
  };
  static constexpr std::size_t kKept = 16;
  // A program is warm after so many iterations: from then on nothing should be mapped.
  static constexpr std::uint64_t kWarmUp = 4;

  // An iteration has ended, `now` being the totals since the start. `length` is an iteration's requests. A renewed plan
  // may begin its iterations elsewhere: what is less than half an iteration behind the last boundary is none.
  void Boundary(const Totals& now, std::uint64_t length) noexcept {
    if (completed_ != 0 && (now.requests - last_.requests) * 2 < length) return;
    if (completed_ == 0) {
      completed_ = std::max<std::uint64_t>(1, (now.requests + length / 2) / std::max<std::uint64_t>(1, length));
    } else {
      ring_[kept_++ % kKept] = {++completed_, now - last_};
    }
    last_ = now;
    if (warm_from_ == 0 && completed_ >= kWarmUp) {
      warm_from_ = completed_ + 1;
      warm_ = now;
    }
  }

  std::uint64_t completed() const noexcept { return completed_; }
  // The first iteration behind the warm-up that was told apart, and the totals where it began; 0: there is none.
  std::uint64_t warm_from() const noexcept { return warm_from_; }
  const Totals& warm() const noexcept { return warm_; }

  // The last iterations, oldest first, at most kKept.
  template <typename Visit>
  void VisitLast(Visit visit, std::size_t at_most = kKept) const {
    const std::size_t count = std::min({kept_, kKept, at_most});
    for (std::size_t i = kept_ - count; i < kept_; ++i) visit(ring_[i % kKept]);
  }

 private:
  std::array<Iteration, kKept> ring_{};
  std::size_t kept_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t warm_from_ = 0;
  Totals last_{};
  Totals warm_{};
};

}  // namespace stalloc::runtime
