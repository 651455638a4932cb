// NestedScope: marks the calling thread as being inside a request that a wrapper has already dealt with.
//
// The runtime library's functions call the driver's, and both are wrapped. A request is served and counted at the first
// door that it comes through; the wrapper there holds a NestedScope while it forwards, and the wrappers beneath then
// only forward, or, if the request has been refused, say so: the runtime library then makes its own error of it.
#pragma once

#include "entry_points.h"

namespace stalloc::interpose {

struct Nesting {
  int depth;
  CUresult refusal;  // what an allocation beneath is to be answered with; CUDA_SUCCESS: nothing, forward it
};

// Initial-exec: a plain offset from the thread pointer, so that it needs no allocation on first use in a thread and
// stays valid before, during and after the thread's other thread-local objects. Trivial, so it has no destructor.
extern constinit thread_local Nesting nesting __attribute__((tls_model("initial-exec")));

inline bool Nested() noexcept { return nesting.depth != 0; }
inline CUresult Refusal() noexcept { return nesting.refusal; }

class NestedScope {
 public:
  explicit NestedScope(CUresult refusal = CUDA_SUCCESS) noexcept : outer_refusal_(nesting.refusal) {
    ++nesting.depth;
    nesting.refusal = refusal;
  }
  ~NestedScope() {
    --nesting.depth;
    nesting.refusal = outer_refusal_;
  }
  NestedScope(const NestedScope&) = delete;
  NestedScope& operator=(const NestedScope&) = delete;

 private:
  CUresult outer_refusal_;
};

}  // namespace stalloc::interpose
