// StallTimer: how long streams stood still at the waits that were inserted for memory.
//
// A pair of timing events is recorded around a wait; when both have passed, the time between them is the stream's that
// was lost. Waits are few, a handful an iteration, and so are the pairs.
//
// Any thread may call it, with the waiting stream's context current and no capture in progress. The driver is asked
// without holding the lock. Allocates only when it is made. Where the driver does not tell times, nothing is measured.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "runtime/base/driver_api.h"
#include "runtime/base/short_lock.h"

namespace stalloc::runtime {

class StallTimer {
 public:
  explicit StallTimer(const DriverApi& driver);

  struct Pair {
    CUevent before = nullptr;  // nullptr: this wait is not measured
    CUevent after = nullptr;
    std::uint64_t generation = 0;  // see Forget
  };
  // Right before a wait is given to `stream`, and right after.
  Pair Begin(CUstream stream) noexcept;
  void End(Pair pair, CUstream stream) noexcept;

  // The time lost at the waits that are over by now and were not told before, in nanoseconds.
  std::uint64_t TakeStalledNs() noexcept;

  // A context ends, and events may end with it: none that there are now is used again.
  void Forget() noexcept;

 private:
  bool TakeIdle(Pair* pair) noexcept;
  void Put(std::vector<Pair>* to, const Pair& pair) noexcept;

  const DriverApi& driver_;
  ShortLock lock_;
  std::vector<Pair> idle_;     // as long as kMostPairs from the start, like the other
  std::vector<Pair> pending_;  // recorded, not known to have passed
  std::size_t made_ = 0;       // pairs of this generation
  std::uint64_t generation_ = 0;
};

}  // namespace stalloc::runtime
