// Entry points of device memory without stream order.
#include <cstdlib>

#include "call.h"

namespace stalloc::simcuda {
namespace {

// Managed memory is the host's here, and freed as the device's.
bool FreeManaged(Call& call, CUdeviceptr address) {
  const auto range = call.machine.host_ranges.find(address);
  if (range == call.machine.host_ranges.end() || !range->second.managed) return false;
  call.machine.scheduler.WaitForDevice(range->second.context->device);
  call.machine.host_ranges.erase(address);
  std::free(reinterpret_cast<void*>(address));  // NOLINT(performance-no-int-to-ptr)
  return true;
}

CUresult FreeBlockAt(Call& call, CUdeviceptr address) {
  Machine& machine = call.machine;
  if (FreeManaged(call, address)) return CUDA_SUCCESS;
  Block* live = machine.blocks.FindLive(address);
  if (live == nullptr || live->kind == Block::Kind::kOpened) return CUDA_ERROR_INVALID_VALUE;
  if (live->kind == Block::Kind::kGraph && !machine.live_graph_memory.contains(address))
    return CUDA_ERROR_INVALID_VALUE;
  live->freed = true;  // a second thread that comes while this one waits finds it gone
  const Block block = *live;
  if (block.kind == Block::Kind::kMalloc) {
    machine.scheduler.WaitForContext(*block.context);
  } else {
    machine.scheduler.WaitForDevice(block.device);
  }
  if (call.context != nullptr && call.context->error != CUDA_SUCCESS) return call.context->error;
  switch (block.kind) {
    case Block::Kind::kMalloc:
      machine.blocks.Release(address);
      break;
    case Block::Kind::kPool:
      block.pool->Free(address, block.size_bytes, {});
      machine.blocks.Remove(address);
      block.pool->TrimToThreshold();
      break;
    case Block::Kind::kOpened:
      break;
    case Block::Kind::kGraph:
      live->freed = false;  // the next launch allocates it anew
      machine.live_graph_memory.erase(address);
      break;
  }
  return CUDA_SUCCESS;
}

constexpr std::size_t kPitchBytes = 512;

}  // namespace

SIMCUDA_EXPORT CUresult cuMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  return Enter(SIMCUDA_ENTRY(cuMemGetInfo), [&](Call& call) {
    const DeviceMemory& memory = *call.machine.FindDevice(call.context->device)->memory;
    if (free_bytes != nullptr) *free_bytes = memory.free_bytes();
    if (total_bytes != nullptr) *total_bytes = memory.total_bytes();
    return CUDA_SUCCESS;
  });
}

// Whatever comes of a request, and before it is judged, its address is null.
SIMCUDA_EXPORT CUresult cuMemAlloc(CUdeviceptr* address, std::size_t size_bytes) {
  if (address != nullptr) *address = 0;
  return Enter(SIMCUDA_ENTRY(cuMemAlloc), [&](Call& call) {
    if (address == nullptr || size_bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    return call.machine.blocks.Allocate(call.context->Owner(), size_bytes, address);
  });
}

SIMCUDA_EXPORT CUresult cuMemAllocPitch(CUdeviceptr* address, std::size_t* pitch, std::size_t width_bytes,
                                        std::size_t height, unsigned element_bytes) {
  if (address != nullptr) *address = 0;
  return Enter(SIMCUDA_ENTRY(cuMemAllocPitch), [&](Call& call) {
    if (address == nullptr || pitch == nullptr || width_bytes == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
    if (element_bytes != 4 && element_bytes != 8 && element_bytes != 16) return CUDA_ERROR_INVALID_VALUE;
    const std::size_t row_bytes = RoundUp(width_bytes, kPitchBytes);
    std::size_t size_bytes = 0;
    if (row_bytes < width_bytes || __builtin_mul_overflow(row_bytes, height, &size_bytes))
      return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = call.machine.blocks.Allocate(call.context->Owner(), size_bytes, address);
    if (result == CUDA_SUCCESS) *pitch = row_bytes;
    return result;
  });
}

// Frees a block, whichever call it came from, when all work of the context that it is of has executed; of a pool's
// block, which is no context's, all work of the device. Needs no context.
SIMCUDA_EXPORT CUresult cuMemFree(CUdeviceptr address) {
  return Enter(SIMCUDA_ENTRY(cuMemFree),
               [&](Call& call) { return address == 0 ? CUDA_SUCCESS : FreeBlockAt(call, address); });
}

// The block that contains the address; for virtual memory the one mapping, not the reservation.
SIMCUDA_EXPORT CUresult cuMemGetAddressRange(CUdeviceptr* base, std::size_t* size_bytes, CUdeviceptr address) {
  return Enter(SIMCUDA_ENTRY(cuMemGetAddressRange), [&](Call& call) {
    CUdeviceptr begin = 0;
    std::size_t size = 0;
    if (const Block* block = call.machine.blocks.FindContaining(address, &begin)) {
      size = block->size_bytes;
    } else if (const Mapping* mapping = call.machine.space.Find(address, &begin);
               mapping != nullptr && mapping->kind == Mapping::Kind::kVirtualMemory) {
      size = mapping->size_bytes;
    } else if (std::uint64_t host_begin = 0; const HostRange* host = call.machine.FindHostRange(address, &host_begin)) {
      begin = host_begin;
      size = host->size_bytes;
    } else {
      return CUDA_ERROR_NOT_FOUND;
    }
    if (base != nullptr) *base = begin;
    if (size_bytes != nullptr) *size_bytes = size;
    return CUDA_SUCCESS;
  });
}

}  // namespace stalloc::simcuda
