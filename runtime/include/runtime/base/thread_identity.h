// Which thread this is, told from every other that there ever is in the process.
//
// Each thread has a default stream of its own, and pthread_self does not tell two of them apart: it is given again once
// a thread has ended, whose work may go on. Any thread; the first call of a thread allocates.
#pragma once

#include <atomic>
#include <cstdint>

namespace stalloc::runtime {

struct ThreadIdentity {
  std::uint64_t number = 0;  // from 1 on; 0: no thread
  const std::atomic<std::uint64_t>* living = nullptr;

  bool ended() const noexcept { return living != nullptr && living->load(std::memory_order_acquire) != number; }
};

extern constinit thread_local ThreadIdentity t_identity __attribute__((tls_model("initial-exec")));

// Throws std::bad_alloc.
ThreadIdentity IdentifyThread();
inline ThreadIdentity ThisThread() { return t_identity.number != 0 ? t_identity : IdentifyThread(); }

inline bool IsThisThread(const ThreadIdentity& thread) noexcept { return thread.number == t_identity.number; }

}  // namespace stalloc::runtime
