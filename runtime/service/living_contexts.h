// The contexts that the program has made, as far as it was seen: from their making on, which may come before anything
// is served. Private to service*.cpp. Any thread.
#pragma once

#include <cuda.h>

#include <atomic>
#include <vector>

namespace stalloc::runtime {

// Set once there have been two contexts: from then on a default stream is asked for its context. Never unset.
extern std::atomic<bool> g_several_contexts;

// The primary context whose memory a green context uses, or any other context itself.
CUcontext MemoryContextOf(CUcontext context) noexcept;

// Those of a device; without the green ones.
std::vector<CUcontext> LivingContexts(CUdevice device);

// The device of one of them; -1: it is none.
CUdevice DeviceOfLivingContext(CUcontext context) noexcept;

}  // namespace stalloc::runtime
