// The Python stack of the calling thread, for the history of allocations.
//
// Frameworks ask for memory without Python's global lock (GIL), and while they hold locks of their own: to wait for the
// GIL there could wait for ever. So the frames are read where they lie. That needs no lock: a thread that is inside a
// request runs no Python meanwhile, and its frames, their code and its texts stay. Nothing is written, no reference is
// taken. How frames lie in memory is learnt, and compared with what Python says itself, once, before the first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stalloc::runtime {

struct PythonFrame {
  const void* code = nullptr;  // stands for the frame's function while that lives
  int line = 0;
  std::string_view file;  // valid until the request returns; empty where it is not plain ASCII
  std::string_view name;
};

// Learns how this interpreter's frames lie. To be called by a Python function, with the GIL. Returns false where they
// cannot be read: stacks are empty then.
bool LearnPythonFrames() noexcept;

// Fills in up to `most` frames, innermost first, and returns how many. Any thread, with the GIL or without; allocates
// nothing.
std::size_t PythonStack(PythonFrame* frames, std::size_t most) noexcept;

}  // namespace stalloc::runtime
