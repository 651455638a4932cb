// StallTimer: how long streams stood still at the waits that were inserted for memory.
//
// A pair of timing events is recorded around a wait; when both have passed, the time between them is the stream's that
// was lost. Waits are few, a handful an iteration, and so are the pairs.
//
// Any thread may call it, always with one and the same context current and no capture in progress. The driver is asked
// without holding the lock. Where it does not tell times, nothing is measured.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <mutex>
#include <vector>

#include "runtime/driver_api.h"
#include "runtime/short_lock.h"

namespace stalloc::runtime {

class StallTimer {
 public:
  explicit StallTimer(const DriverApi& driver) : driver_(driver) {}

  struct Pair {
    CUevent before = nullptr;  // nullptr: this wait is not measured
    CUevent after = nullptr;
  };
  // Right before a wait is given to `stream`, and right after.
  Pair Begin(CUstream stream) noexcept;
  void End(Pair pair, CUstream stream) noexcept;

  // The time lost at the waits that are over by now and were not told before, in nanoseconds.
  std::uint64_t TakeStalledNs() noexcept;

 private:
  bool Pop(std::vector<Pair>* from, Pair* pair) noexcept;
  void Push(std::vector<Pair>* to, Pair pair) noexcept;

  const DriverApi& driver_;
  ShortLock lock_;
  std::vector<Pair> idle_;
  std::vector<Pair> pending_;
};

}  // namespace stalloc::runtime
