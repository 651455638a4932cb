// Settings of the frameworks that bring tensor-sized requests down to CUDA; by default they keep pools of their own, in
// which single tensors cannot be seen.
#pragma once

namespace stalloc::interpose {

// Sets each in the environment unless the user has set it. Call it before main, from the thread that loads the program:
// the environment is not safe to change once there are others.
void SetFrameworkSettings() noexcept;

}  // namespace stalloc::interpose
