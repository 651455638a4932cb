// The stack walk, taken from whichever library has it. Private to call_site.cpp.
#pragma once

#include <cstdint>

#include "runtime/call_sites/call_site.h"

namespace stalloc::runtime {

// Fills in up to `count` return addresses, innermost first, and returns how many there are. Allocates nothing once the
// thread has walked its first stack.
using WalkFunction = int (*)(void** addresses, int count);

// The same, slower, and with each address where on the stack it lies.
using WalkSlotsFunction = int (*)(void** addresses, std::uintptr_t* slots, int count);

struct LoadedUnwinder {
  Unwinder kind = Unwinder::kNone;
  WalkFunction walk = nullptr;
  WalkSlotsFunction walk_slots = nullptr;  // null where calls leave no return address on the stack by themselves
};

// Each loads its library, allocates, and returns kNone if the library is not there.
LoadedUnwinder FindLibunwind() noexcept;
LoadedUnwinder FindLibgcc() noexcept;

}  // namespace stalloc::runtime
