// Settings of the frameworks that bring tensor-sized requests down to CUDA; by default they keep pools of their own, in
// which single tensors cannot be seen.
//
// PyTorch is left on its own allocator where the program needs what the cudaMallocAsync backend does not have: its
// source says so, an earlier run showed it, or the user asked for IPC. A process hands what was decided on to its
// children: what stalloc has set is told from what the user has set by the variables _STALLOC_PYTORCH ("set" or "left")
// and _STALLOC_SET (names).
#pragma once

#include <string>

#include "runtime/settings.h"

namespace stalloc::interpose {

// Sets each in the environment unless the user has set it. Call it before main, from the thread that loads the program:
// the environment is not safe to change once there are others. Reads files where the program is a Python interpreter;
// throws std::bad_alloc.
void SetFrameworkSettings(const runtime::Settings& settings);

// In a process that is not to be served: removes what an ancestor, served or only its shell, has set for it. The same
// holds of threads.
void TakeBackFrameworkSettings();

// True in a Python interpreter whose PyTorch uses the cudaMallocAsync backend because stalloc said so.
bool PyTorchBackendWasChosen() noexcept;

// Why PyTorch was left on its own allocator in this process, as a line to be said once CUDA is used. Empty: it was not,
// or who started this process has said it.
const std::string& PyTorchRemark() noexcept;

}  // namespace stalloc::interpose
