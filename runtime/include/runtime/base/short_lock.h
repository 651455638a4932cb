// ShortLock: a mutex for critical sections of some tens of nanoseconds that several threads enter every microsecond.
//
// One atomic exchange to take it and a plain store to release it, where std::mutex needs an atomic operation for each.
// The price: who waits is not known to who releases, so a waiter looks again and again, then lets others run, then
// sleeps in short naps. Nobody queues, so a holder that is descheduled delays the others once and starts no convoy.
//
// Each look comes after twice as long a pause as the one before (exponential backoff: T. E. Anderson, "The performance
// of spin lock alternatives for shared-memory multiprocessors", 1990). Where threads do nothing but take the lock, a
// change of hands costs more than the critical section: what it guards has to come from another core's cache. Those who
// wait then look seldom, so one thread takes its turn many times over before the next one does.
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
  bool TryTake() noexcept;
  void Wait() noexcept;

  std::atomic<bool> taken_{false};
};

}  // namespace stalloc::runtime
