// Which memory pool a request means: requests from a device's default pool are served, those from pools that the
// program made are the driver's.
//
// Any thread; no locks; no allocation.
#pragma once

#include <atomic>
#include <cstdint>

#include "entry_points.h"

namespace stalloc::interpose {

// The device of the calling thread's current context, or -1.
int CurrentDevice() noexcept;

// The device whose default pool this is, or -1.
int DeviceOfDefaultPool(CUmemoryPool pool) noexcept;

// True if this is the default pool of the stream's device. Another device's is the driver's to serve: the allocator
// takes memory on the stream's device.
bool IsDefaultPoolOf(CUmemoryPool pool, CUstream stream) noexcept;

// True if cuMemAllocAsync on the stream takes from its device's default pool, as it does until the program says
// otherwise.
extern constinit std::atomic<std::uint64_t> devices_with_own_pool;  // a bit each
bool DeviceTakesFromDefaultPool(CUstream stream) noexcept;
inline bool TakesFromDefaultPool(CUstream stream) noexcept {
  return devices_with_own_pool.load(std::memory_order_acquire) == 0 || DeviceTakesFromDefaultPool(stream);
}

}  // namespace stalloc::interpose
