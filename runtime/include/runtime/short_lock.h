// ShortLock: a mutex for critical sections of some tens of nanoseconds that several threads enter every microsecond.
//
// One atomic exchange to take it and a plain store to release it, where std::mutex needs an atomic operation for each.
// The price: who waits is not known to who releases, so a waiter spins, then lets others run, then sleeps in short
// naps. Nobody queues, so a holder that is descheduled delays the others once and starts no convoy.
#pragma once

#include <atomic>

namespace stalloc::runtime {

class ShortLock {
 public:
  void lock() noexcept {
    if (taken_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      Wait();
  }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  void Wait() noexcept;

  std::atomic<bool> taken_{false};
};

}  // namespace stalloc::runtime
