// A module with the runtime inside, as libstalloc.so is one: its own frames must not show in a call site.
#include <cstdint>

#include "call_site/deep_calls.h"
#include "runtime/call_sites/call_site.h"

using stalloc::runtime::CallSiteHash;
using stalloc::runtime::CallThrough;
using stalloc::runtime::HashFunction;

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int Load() { return static_cast<int>(stalloc::runtime::LoadUnwinder()); }
EXPORTED std::uint64_t HashNear(int depth, std::uint64_t /*hint*/) { return CallThrough(1, &CallSiteHash, depth); }
EXPORTED std::uint64_t HashFar(int depth, std::uint64_t /*hint*/) { return CallThrough(5, &CallSiteHash, depth); }

// For a module that calls back into the program.
EXPORTED std::uint64_t CallBack(HashFunction hash) { return CallThrough(3, hash, 24); }
