// Settings of the frameworks that bring tensor-sized requests down to CUDA; by default they keep pools of their own, in
// which single tensors cannot be seen.
//
// PyTorch is left on its own allocator where the program needs what the cudaMallocAsync backend does not have: its
// source says so, an earlier run showed it, or the user asked for IPC. Where the source says that CUDA memory goes to
// other processes, STALLOC_IPC=on is set as well, so that cudaMalloc is left to the driver. A process hands what was
// decided on to its children, as a child that is sent memory must decide alike: what stalloc has set is told from what
// the user has set by the variables _STALLOC_PYTORCH ("set" or "left"), _STALLOC_SET (names) and _STALLOC_REMARK (why).
#pragma once

#include <string>

#include "runtime/base/settings.h"

namespace stalloc::interpose {

// Sets each in the environment unless the user has set it; with STALLOC_FRAMEWORKS=0, only STALLOC_IPC. Call it before
// main, from the thread that loads the program: the environment is not safe to change once there are others. Reads
// files where the program is a Python interpreter; throws std::bad_alloc.
void SetFrameworkSettings(const runtime::Settings& settings);

// Removes what an ancestor, served or only its shell, has set for frameworks. The same holds of threads.
void TakeBackFrameworkSettings();

// In a process that is not to be served: removes STALLOC_IPC too, where an ancestor has set it.
void TakeBackAllSettings();

// True in a Python interpreter whose PyTorch uses the cudaMallocAsync backend because stalloc said so.
bool PyTorchBackendWasChosen() noexcept;

// Why PyTorch was left on its own allocator in this process or in the ancestor that decided it, or cudaMalloc to the
// driver, as a line to be said once CUDA is used. Empty: neither was, or the user said so.
const std::string& PyTorchRemark() noexcept;

}  // namespace stalloc::interpose
