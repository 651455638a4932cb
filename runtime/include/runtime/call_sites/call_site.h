// Call sites: which place in the program a request comes from, as a number that is the same in every run.
//
// The number is an XXH3 hash over (module build id, offset in the module) of the stack frames above the shim, so it
// depends neither on where address randomisation put the modules nor on the shim itself. Frames in memory that belongs
// to no module (code generated at run time) count as "anonymous", without an offset. Lines of an interpreted program do
// not show: the interpreter's own frames do.
#pragma once

#include <cstdint>

namespace stalloc::runtime {

enum class Unwinder : std::uint8_t {
  kNone,       // not loaded, or nothing found that walks the stack: every call site is unknown
  kLibgcc,     // libgcc_s.so.1: always there, about twenty times as slow
  kLibunwind,  // libunwind.so.8, from beside this library or from the system
};

// Loads the unwinder, with RTLD_LOCAL so that its symbols do not meet the program's. Any thread, any number of times:
// the first call decides. Not for the serving path: loads libraries, allocates, and logs if libunwind is missing.
Unwinder LoadUnwinder() noexcept;

inline constexpr int kMaxStackDepth = 64;

// The call site made of the `depth` (1 to kMaxStackDepth) innermost frames outside this library; 0 if it is unknown:
// LoadUnwinder has not been called or found nothing. Any thread, for the serving path: takes no lock, allocates nothing
// and logs nothing. A stack that the thread has seen twice costs a look at its return addresses, the fastest where the
// same `hint` (say, the size that is asked for) came with it; one that was seen before the walk and one table look-up;
// a new one also a search through the module map, which is made again when a frame lies in a module loaded since.
//
// A module that was unloaded and replaced by another at the same address may be taken for the old one: that costs a
// match, never correctness.
std::uint64_t CallSiteHash(int depth, std::uint64_t hint = 0) noexcept;

// A short name for a call site: tells the few thousand of a process apart. 0 for the call site 0 alone.
inline std::uint32_t SiteTag(std::uint64_t call_site) noexcept {
  const auto low = static_cast<std::uint32_t>(call_site);
  return call_site != 0 && low == 0 ? 1 : low;
}

// The innermost frames of a call site that CallSiteHash has returned in this process, as return addresses, innermost
// first: those outside this library, at most `room`. 0: unknown. Any thread; takes no lock and allocates nothing.
int FramesOfSite(std::uint32_t tag, std::uintptr_t* frames, int room) noexcept;

}  // namespace stalloc::runtime
