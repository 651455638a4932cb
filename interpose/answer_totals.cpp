// What the program asks about memory as a whole: how much is free, and the counters of the default pool.
//
// Any thread. The driver counts the pages that the allocator holds as used and knows nothing of the blocks in them;
// what is added here makes the answers those that the program would get if the driver served it.
#include <algorithm>

#include "pools.h"
#include "process_life.h"
#include "real_symbols.h"
#include "runtime/service/service.h"

namespace stalloc::interpose {
namespace {

// The allocator's share of a counter; false for attributes that are not counters.
bool Counted(CUmemPool_attribute attribute, int device, std::uint64_t* bytes) noexcept {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *bytes = runtime::GetPoolStatistics(device).used_bytes;
      return true;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *bytes = runtime::GetPoolStatistics(device).used_high_bytes;
      return true;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      *bytes = runtime::GetPoolStatistics(device).reserved_bytes;
      return true;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      *bytes = runtime::GetPoolStatistics(device).reserved_high_bytes;
      return true;
    default:
      return false;
  }
}

}  // namespace
}  // namespace stalloc::interpose

using namespace stalloc::interpose;

CUresult cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
  std::size_t total = 0;
  // Either argument may be null, in the driver too; the total is needed here in any case.
  const CUresult result = Forward<Entry::k_cuMemGetInfo_v2>(free_bytes, &total);
  if (result != CUDA_SUCCESS) return result;
  if (total_bytes != nullptr) *total_bytes = total;
  if (free_bytes != nullptr && ServingAlready()) {
    const int device = CurrentDevice();
    if (device >= 0) *free_bytes = std::min<std::size_t>(total, *free_bytes + stalloc::runtime::IdleBytes(device));
  }
  return result;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  const CUresult result = Forward<Entry::k_cuMemPoolGetAttribute>(pool, attribute, value);
  if (result != CUDA_SUCCESS || !ServingAlready()) return result;
  const int device = DeviceOfDefaultPool(pool);
  std::uint64_t bytes = 0;
  if (device >= 0 && Counted(attribute, device, &bytes)) *static_cast<cuuint64_t*>(value) += bytes;
  return result;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  const CUresult result = Forward<Entry::k_cuMemPoolSetAttribute>(pool, attribute, value);
  if (result != CUDA_SUCCESS || !ServingAlready()) return result;
  // The only value that the driver takes for a high-water mark is 0: begin again from what is there now.
  const bool used = attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
  const bool reserved = attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
  const int device = used || reserved ? DeviceOfDefaultPool(pool) : -1;
  if (device >= 0) stalloc::runtime::ResetPoolHigh(device, used, reserved);
  return result;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, std::size_t keep_bytes) {
  const CUresult result = Forward<Entry::k_cuMemPoolTrimTo>(pool, keep_bytes);
  if (result != CUDA_SUCCESS || !ServingAlready()) return result;
  const int device = DeviceOfDefaultPool(pool);
  if (device >= 0) stalloc::runtime::Trim(device, keep_bytes);
  return result;
}
