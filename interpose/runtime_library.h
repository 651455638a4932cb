// What is to be known of the program's libcudart.
#pragma once

namespace stalloc::interpose {

// False before CUDA 12, where cudaSetDevice changed the current context only with the next call into the library that
// needs one: the current context may still be another device's until then. Any thread; asks the library once.
bool SetDeviceTakesEffectAtOnce() noexcept;

}  // namespace stalloc::interpose
