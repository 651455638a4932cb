// Calls a function from the end of a chain of frames that the compiler cannot fold, for tests of the stack walk.
#pragma once

#include <cstdint>

namespace stalloc::runtime {

using HashFunction = std::uint64_t (*)(int depth, std::uint64_t hint);

// `frames` frames between the caller and `hash`.
[[gnu::noinline]] inline std::uint64_t CallThrough(int frames, HashFunction hash, int depth) {
  const std::uint64_t result = frames > 1 ? CallThrough(frames - 1, hash, depth) : hash(depth, 0);
  asm volatile("");  // no tail call: the frame must be there
  return result;
}

}  // namespace stalloc::runtime
