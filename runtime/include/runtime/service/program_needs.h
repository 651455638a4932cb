// ProgramNeeds: what a program was seen to need that stalloc's usual ways do not give it. Kept beside its plan, so that
// the next run of the same program steps aside by itself.
//
// A need is found too late for the run that shows it: by then PyTorch has chosen its allocator, and the memory to be
// shared has been allocated. The file, `<plan cache>/<program>.needs`, is text: the line "stalloc-needs 1", then one
// name a line. Names that are not known are skipped: another version's. Where no plan is kept, no need is either.
//
// Any thread; allocates and reads or writes a file. Not for the serving path.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/settings.h"

namespace stalloc::runtime {

enum class Need : std::uint8_t {
  kGraphPools,  // "graph-pools": the pools of PyTorch's own allocator, behind torch.compile's CUDA graphs
  kIpc,         // "ipc": legacy IPC handles of memory from cudaMalloc or cuMemAlloc
};

// Was an earlier run of this program seen to need it?
bool KnownToNeed(const Settings& settings, Need need) noexcept;

// Keeps a need for the next run. Returns the file, or nothing where it could not be kept.
std::string KeepNeed(const Settings& settings, Need need) noexcept;

}  // namespace stalloc::runtime
