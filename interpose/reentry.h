// NestedScope: marks the calling thread as being inside a request that a wrapper has already dealt with.
//
// The runtime library's functions call the driver's, and both are wrapped. A request is served and counted at the first
// door that it comes through; the wrapper there holds a NestedScope while it forwards, and the wrappers beneath then
// only forward. Owned by interpose; one depth a thread.
#pragma once

namespace stalloc::interpose {

// Initial-exec: a plain offset from the thread pointer, so that it needs no allocation on first use in a thread and
// stays valid before, during and after the thread's other thread-local objects. Trivial, so it has no destructor.
extern constinit thread_local int nesting_depth __attribute__((tls_model("initial-exec")));

inline bool Nested() noexcept { return nesting_depth != 0; }

class NestedScope {
 public:
  NestedScope() noexcept { ++nesting_depth; }
  ~NestedScope() { --nesting_depth; }
  NestedScope(const NestedScope&) = delete;
  NestedScope& operator=(const NestedScope&) = delete;
};

}  // namespace stalloc::interpose
