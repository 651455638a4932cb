#include "runtime/short_lock.h"

#include <sched.h>
#include <time.h>

namespace stalloc::runtime {

namespace {

// The holder is at work on another core: about as long as a few critical sections.
constexpr int kSpins = 200;
// The holder waits for a core, perhaps this one.
constexpr int kYields = 20;
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

void ShortLock::Wait() noexcept {
  for (int tries = 0;; ++tries) {
    // Looks before it takes: an exchange would move the line away from the holder.
    if (!taken_.load(std::memory_order_relaxed) && !taken_.exchange(true, std::memory_order_acquire)) return;
    if (tries < kSpins) {
      Pause();
    } else if (tries < kSpins + kYields) {
      ::sched_yield();
    } else {
      const timespec nap{0, kNapNs};
      ::nanosleep(&nap, nullptr);
    }
  }
}

}  // namespace stalloc::runtime
