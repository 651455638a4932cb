#include "runtime/base/short_lock.h"

#include <sched.h>
#include <time.h>

#include "runtime/base/cancellation_off.h"

namespace stalloc::runtime {

namespace {

// Pauses, of 10 to 50 ns each, between two looks at the lock: the first look comes after about a critical section, each
// other one after twice as long as the one before, up to 1 to 6 us.
constexpr int kLongestPause = 128;
// So many looks after the longest pause, each behind a yield: perhaps the holder waits for this core.
constexpr int kYields = 16;
// The holder does something linear, or yielding does not reach it: a waiter of a higher real-time priority.
constexpr long kNapNs = 20'000;

void Pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

// Looks before it takes: an exchange would move the line away from the holder.
bool ShortLock::TryTake() noexcept {
  return !taken_.load(std::memory_order_relaxed) && !taken_.exchange(true, std::memory_order_acquire);
}

void ShortLock::Wait() noexcept {
  for (int pauses = 1, yields = 0; yields < kYields;) {
    for (int i = 0; i < pauses; ++i) Pause();
    if (pauses < kLongestPause) {
      pauses *= 2;
    } else {
      ::sched_yield();
      ++yields;
    }
    if (TryTake()) return;
  }
  const CancellationOff no_cancellation;
  while (!TryTake()) {
    const timespec nap{0, kNapNs};
    ::nanosleep(&nap, nullptr);
  }
}

}  // namespace stalloc::runtime
