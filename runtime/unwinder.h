// The stack walk, taken from whichever library has it. Private to call_site.cpp.
#pragma once

#include "runtime/call_site.h"

namespace stalloc::runtime {

// Fills in up to `count` return addresses, innermost first, and returns how many there are. Allocates nothing once the
// thread has walked its first stack.
using WalkFunction = int (*)(void** addresses, int count);

struct LoadedUnwinder {
  Unwinder kind = Unwinder::kNone;
  WalkFunction walk = nullptr;
};

// Each loads its library, allocates, and returns kNone if the library is not there.
LoadedUnwinder FindLibunwind() noexcept;
LoadedUnwinder FindLibgcc() noexcept;

}  // namespace stalloc::runtime
