// How often something has happened in this process by which an answer about contexts may have become another one: a
// context made or ended, a primary one reset or released, its flags set. What is remembered of such answers holds as
// long as the count stands still. That another context becomes current in a thread is not counted.
//
// Any thread. Counted after the driver has done it, and where something ends, before that too: whoever remembers an
// answer read the count before asking.
#pragma once

#include <atomic>
#include <cstdint>

namespace stalloc::interpose {

inline constinit std::atomic<std::uint32_t> context_changes{0};

inline void NoteContextChange() noexcept { context_changes.fetch_add(1, std::memory_order_acq_rel); }

// The result of a call that may have been such a thing.
template <typename Result>
Result Changed(Result result) noexcept {
  NoteContextChange();
  return result;
}

}  // namespace stalloc::interpose
