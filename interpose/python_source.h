// What a Python program's own source says of its use of PyTorch, before it runs.
//
// PyTorch chooses its allocator once, when it is loaded, by a variable that stalloc sets before the interpreter starts.
// Some of its features work on its own allocator alone. Whether a program uses them stands in its source or on its
// command line: this reads both, and the program's own modules that the source imports, as far as they lie beside it.
// Nothing is executed, nothing installed is read. Allocates and reads files; throws std::bad_alloc. Not for processes
// that are no Python.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "python_sharing.h"

namespace stalloc::interpose {

struct SourceSigns {
  std::optional<SourceSign> own_allocator;  // a feature that PyTorch's cudaMallocAsync backend does not have
  std::optional<SourceSign> sharing;        // CUDA memory for other processes, by legacy IPC handles
};

// `arguments`: of the interpreter, its own name first. Files are read while they are no more than 200 and no more than
// 8 MiB altogether.
SourceSigns ReadSource(std::span<const std::string> arguments);

}  // namespace stalloc::interpose
