// Tools that check a program's use of device memory, and see it by the driver's own allocations: compute-sanitizer.
//
// Over served memory, whose blocks share mapped pages, such a tool would find nothing where it should: it is left the
// driver's memory. Profilers and debuggers are another thing, and see served memory as any other.
#pragma once

namespace stalloc::interpose {

// True if one is attached to this process, by what its launcher sets or by its library. Any thread; allocates nothing.
bool MemoryCheckerAttached() noexcept;

}  // namespace stalloc::interpose
