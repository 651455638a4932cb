#include "pools.h"

#include "driver_call.h"
#include "real_symbols.h"
#include "runtime/service/service.h"

namespace stalloc::interpose {

constinit std::atomic<std::uint64_t> devices_with_own_pool{0};

namespace {

constexpr int kMaxDevices = 64;  // one bit each below; CUDA itself shows at most 64 devices in a process

constinit std::atomic<CUmemoryPool> default_pools[kMaxDevices] = {};
constinit std::atomic<bool> default_pools_known{false};
constinit std::atomic<int> device_count{0};

// Default pools live as long as the driver does, so each is asked for once.
void LearnDefaultPools() noexcept {
  int count = 0;
  if (STALLOC_CALL_DRIVER(cuDeviceGetCount, &count) != CUDA_SUCCESS) return;
  for (int device = 0; device < count && device < kMaxDevices; ++device) {
    CUmemoryPool pool = nullptr;
    if (STALLOC_CALL_DRIVER(cuDeviceGetDefaultMemPool, &pool, device) != CUDA_SUCCESS) continue;
    default_pools[device].store(pool, std::memory_order_relaxed);
  }
  device_count.store(count, std::memory_order_relaxed);
  default_pools_known.store(true, std::memory_order_release);
}

void NoteCurrentPool(int device, CUmemoryPool pool) noexcept {
  if (device < 0 || device >= kMaxDevices) return;
  const std::uint64_t bit = std::uint64_t{1} << device;
  if (DeviceOfDefaultPool(pool) == device) {
    devices_with_own_pool.fetch_and(~bit, std::memory_order_release);
  } else {
    devices_with_own_pool.fetch_or(bit, std::memory_order_release);
  }
}

}  // namespace

int CurrentDevice() noexcept {
  CUdevice device = -1;
  return STALLOC_CALL_DRIVER(cuCtxGetDevice, &device) == CUDA_SUCCESS ? device : -1;
}

int DeviceOfDefaultPool(CUmemoryPool pool) noexcept {
  if (pool == nullptr) return -1;
  if (!default_pools_known.load(std::memory_order_acquire)) LearnDefaultPools();
  for (int device = 0; device < kMaxDevices; ++device) {
    if (default_pools[device].load(std::memory_order_relaxed) == pool) return device;
  }
  return -1;
}

bool IsDefaultPoolOf(CUmemoryPool pool, CUstream stream) noexcept {
  const int device = DeviceOfDefaultPool(pool);
  if (device < 0) return false;
  // With one device there is nothing to compare.
  return device_count.load(std::memory_order_relaxed) == 1 || device == runtime::DeviceOf(stream);
}

bool DeviceTakesFromDefaultPool(CUstream stream) noexcept {
  const std::uint64_t own = devices_with_own_pool.load(std::memory_order_acquire);
  const int device = runtime::DeviceOf(stream);
  return device >= 0 && device < kMaxDevices && (own >> device & 1) == 0;
}

}  // namespace stalloc::interpose

using namespace stalloc::interpose;

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  const CUresult result = Forward<Entry::k_cuDeviceSetMemPool>(device, pool);
  if (result == CUDA_SUCCESS) NoteCurrentPool(device, pool);
  return result;
}

CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  const CUresult result = Forward<Entry::k_cuMemSetMemPool>(location, type, pool);
  if (result == CUDA_SUCCESS && location != nullptr && location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
      type == CU_MEM_ALLOCATION_TYPE_PINNED) {
    NoteCurrentPool(location->id, pool);
  }
  return result;
}
