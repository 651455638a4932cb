// How many primary contexts have ended in this process, by a reset or the last release.
//
// A thread in which one was current goes on having it, although it is destroyed, until the runtime library makes a new
// one in the thread's next call. So a runtime-level wrapper that has seen fewer lets the library run first.
#pragma once

#include <atomic>
#include <cstdint>

namespace stalloc::interpose {

inline constinit std::atomic<std::uint32_t> primary_contexts_ended{0};

}  // namespace stalloc::interpose
