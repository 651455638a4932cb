// The process: whether the shim is on, when the allocator starts, and how it ends.
//
// Any thread. Nothing here holds a lock: a thread that finds another one starting the allocator goes to the driver
// meanwhile, which is always right, instead of waiting for it, which could wait for ever.
#pragma once

#include <atomic>

namespace stalloc::interpose {

enum class ProcessState : int { kUndecided, kStarting, kServing, kForwarding };
extern constinit std::atomic<ProcessState> process_state;

// False if STALLOC_DISABLE is set: then every hook forwards and nothing else happens. Callable before constructors.
bool Enabled() noexcept;

// True if requests are taken to the allocator; never starts it: for the hooks that have something to say only if it has
// started.
inline bool ServingAlready() noexcept {
  return process_state.load(std::memory_order_acquire) == ProcessState::kServing;
}

// The same, but the first call starts it; from then on this is one load.
bool StartServing() noexcept;
inline bool Serving() noexcept { return ServingAlready() || StartServing(); }

// True until the first call of Serving has been decided.
inline bool ServingUndecided() noexcept {
  return process_state.load(std::memory_order_acquire) == ProcessState::kUndecided;
}

}  // namespace stalloc::interpose
