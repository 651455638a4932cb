#include "memory_blocks.h"

#include "machine.h"

namespace stalloc::simcuda {

bool MemoryBlocks::MapMalloc(Context& context, CUdeviceptr* address, std::uint64_t size_bytes) {
  PhysicalPtr physical = machine_->FindDevice(context.device)->memory->Allocate(size_bytes);
  if (physical == nullptr) return false;
  const std::uint64_t mapped_bytes = physical->size_bytes;
  *address = machine_->space.Reserve(mapped_bytes, kPageBytes, 0);
  if (*address == 0) return false;
  Mapping mapping{mapped_bytes, std::move(physical), Mapping::Kind::kMalloc};
  mapping.SetAccess(context.device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  return machine_->space.Map(*address, std::move(mapping));
}

CUresult MemoryBlocks::Allocate(Context& context, std::uint64_t size_bytes, CUdeviceptr* address) {
  CUdeviceptr place = 0;
  if (size_bytes >= kPageBytes) {
    if (RoundUp(size_bytes, kPageBytes) < size_bytes || !MapMalloc(context, &place, size_bytes))
      return CUDA_ERROR_OUT_OF_MEMORY;
  } else {
    const std::uint64_t units = RoundUp(size_bytes, kBlockUnitBytes);
    auto taken = context.heap.Take(units);
    if (!taken) {
      CUdeviceptr chunk = 0;
      if (!MapMalloc(context, &chunk, kPageBytes)) return CUDA_ERROR_OUT_OF_MEMORY;
      context.heap.Return(chunk, kPageBytes);
      taken = context.heap.Take(units);
    }
    place = *taken;
  }
  Block block;
  block.size_bytes = size_bytes;
  block.device = context.device;
  block.context = &context;
  Add(place, std::move(block));
  *address = place;
  return CUDA_SUCCESS;
}

void MemoryBlocks::Add(CUdeviceptr address, Block block) {
  block.id = machine_->NextId();
  blocks_.insert_or_assign(address, std::move(block));
}

void MemoryBlocks::Release(CUdeviceptr address) {
  const auto it = blocks_.find(address);
  if (it == blocks_.end()) return;
  Context& context = *it->second.context;
  const std::uint64_t size_bytes = it->second.size_bytes;
  blocks_.erase(it);
  AddressSpace& space = machine_->space;
  if (size_bytes >= kPageBytes) {
    const std::uint64_t mapped_bytes = RoundUp(size_bytes, kPageBytes);
    space.Unmap(address, mapped_bytes, Mapping::Kind::kMalloc);
    space.Free(address, mapped_bytes);
    return;
  }
  const std::uint64_t units = RoundUp(size_bytes, kBlockUnitBytes);
  context.heap.Return(address, units);
  // Neighbouring chunks are one range to the heap, so that a block may lie in two.
  for (CUdeviceptr chunk = address / kPageBytes * kPageBytes; chunk < address + units; chunk += kPageBytes) {
    if (!context.heap.TakeAt(chunk, kPageBytes)) continue;
    space.Unmap(chunk, kPageBytes, Mapping::Kind::kMalloc);
    space.Free(chunk, kPageBytes);
  }
}

void MemoryBlocks::ReleaseAll(Context& context) {
  std::vector<CUdeviceptr> owned;
  for (const auto& [address, block] : blocks_) {
    if (block.kind == Block::Kind::kMalloc && block.context == &context) owned.push_back(address);
  }
  for (const CUdeviceptr address : owned) Release(address);
}

Block* MemoryBlocks::FindLive(CUdeviceptr address) {
  const auto it = blocks_.find(address);
  return it == blocks_.end() || it->second.freed ? nullptr : &it->second;
}

Block* MemoryBlocks::FindContaining(CUdeviceptr address, CUdeviceptr* begin) {
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return nullptr;
  --it;
  if (it->second.freed || address - it->first >= it->second.size_bytes) return nullptr;
  *begin = it->first;
  return &it->second;
}

}  // namespace stalloc::simcuda
