// The module map: from an address of code to the module that it lies in, named by something that outlives the process.
//
// Lookup takes no lock and allocates nothing while the map is current. It reads an immutable snapshot; a newer one
// replaces it by one atomic store, and the old one stays, because a reader may still be in it. Refresh asks the dynamic
// loader, whose lock it takes, but holds none of its own over that.
#pragma once

#include <cstdint>

namespace stalloc::runtime {

struct CodeLocation {
  std::uint64_t module = 0;  // hash of the build id; kAnonymousModule: no module
  std::uint64_t offset = 0;  // from the module's load address; 0 if anonymous
  bool own = false;          // in this library (never true where it is part of the main program)
};

inline constexpr std::uint64_t kAnonymousModule = 1;

// Where `address` lies, by the newest snapshot; makes a snapshot first if there is none, and a newer one if the address
// is in no known module and modules were loaded or unloaded since.
CodeLocation Locate(std::uintptr_t address) noexcept;

// Build id hash of the main program.
std::uint64_t MainModule() noexcept;

}  // namespace stalloc::runtime
