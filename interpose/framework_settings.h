// What brings a framework's tensor-sized requests down to CUDA; by default frameworks keep pools of their own, in which
// single tensors cannot be seen.
//
// PyTorch and TensorFlow choose their allocator once, by an environment variable that their C++ reads with getenv.
// libstalloc exports getenv, and answers this one question where a library of the framework asks it; the environment
// stays the user's own, for os.environ, for children and for everybody else. JAX asks in Python: see
// python/adapter.py.
//
// PyTorch is left on its own allocator where the user names a backend, asks for STALLOC_IPC=on, or where an earlier run
// of the program was seen to need it (program_needs.h).
#pragma once

#include <string>
#include <string_view>

namespace stalloc::interpose {

// PyTorch's allocator settings as they mean something on the cudaMallocAsync backend: with that backend in front, and
// of the rest the options of pinned host memory. `*dropped` gets the others, separated by commas. Throws
// std::bad_alloc.
std::string OnAsyncBackend(std::string_view settings, std::string* dropped);

// True once PyTorch has been told to use the cudaMallocAsync backend.
bool PyTorchBackendWasChosen() noexcept;

// Why PyTorch was left on its own allocator in this process, as a line to be said once CUDA is used. Null: it was not,
// or the user said so.
const char* PyTorchRemark() noexcept;

}  // namespace stalloc::interpose
