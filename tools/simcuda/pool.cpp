#include "pool.h"

#include <algorithm>
#include <cstring>

#include "machine.h"

namespace stalloc::simcuda {
namespace {

// What is reserved grows by multiples of this, as far as there is room, as measured: of eleven training programs' pools
// every reserve was one.
constexpr std::uint64_t kGrowthBytes = std::uint64_t{32} << 20;

void AddFence(std::vector<Fence>* fences, const Fence& fence) {
  std::erase_if(*fences, [](const Fence& old) { return old.Passed(); });
  if (fence.stream == nullptr || fence.Passed()) return;
  for (Fence& old : *fences) {
    if (old.stream != fence.stream) continue;
    old.position = std::max(old.position, fence.position);
    return;
  }
  fences->push_back(fence);
}

}  // namespace

Pool::~Pool() {
  for (const auto& [chunk, size_bytes] : chunks_) {
    machine_->space.Unmap(chunk, size_bytes, Mapping::Kind::kPool);
    machine_->space.Free(chunk, size_bytes);
  }
}

Pool::Readiness Pool::ReadinessOf(const FreeBlock& block, const Stream& stream) const {
  Readiness readiness = Readiness::kReady;
  for (const Fence& fence : block.fences) {
    if (fence.stream.get() == &stream || (fence.Passed() && reuse_opportunistic_ != 0)) continue;
    if (reuse_internal_dependencies_ == 0) return Readiness::kNot;
    readiness = Readiness::kAfterWait;
  }
  return readiness;
}

CUresult Pool::Allocate(const std::shared_ptr<Stream>& stream, std::uint64_t size_bytes, CUdeviceptr* address) {
  const std::uint64_t needed = RoundUp(size_bytes, kBlockUnitBytes);
  if (needed < size_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  for (bool grown = false;; grown = true) {
    auto chosen = free_.end();
    for (auto it = free_by_size_.lower_bound({needed, 0}); it != free_by_size_.end(); ++it) {
      const auto candidate = free_.find(it->second);
      const Readiness readiness = ReadinessOf(candidate->second, *stream);
      if (readiness == Readiness::kReady) {
        chosen = candidate;
        break;
      }
      if (readiness == Readiness::kAfterWait && chosen == free_.end()) chosen = candidate;
    }
    if (chosen == free_.end()) {
      if (grown || !Grow(needed)) return CUDA_ERROR_OUT_OF_MEMORY;
      continue;
    }
    const CUdeviceptr begin = chosen->first;
    FreeBlock block = std::move(chosen->second);
    Erase(chosen);
    if (needed < block.size_bytes) Insert(begin + needed, {block.size_bytes - needed, block.fences});
    std::erase_if(block.fences, [&](const Fence& fence) { return fence.stream == stream || fence.Passed(); });
    if (!block.fences.empty()) machine_->scheduler.Queue(*stream, nullptr, std::move(block.fences));
    used_bytes_ += needed;
    used_high_bytes_ = std::max(used_high_bytes_, used_bytes_);
    *address = begin;
    return CUDA_SUCCESS;
  }
}

void Pool::Free(CUdeviceptr address, std::uint64_t size_bytes, const Fence& fence) {
  const std::uint64_t held = RoundUp(size_bytes, kBlockUnitBytes);
  used_bytes_ -= held;
  FreeBlock block{held, {}};
  AddFence(&block.fences, fence);
  // Merge with the neighbours; what they wait for, the whole waits for.
  auto next = free_.lower_bound(address);
  if (next != free_.end() && next->first == address + held) {
    block.size_bytes += next->second.size_bytes;
    for (const Fence& other : next->second.fences) AddFence(&block.fences, other);
    next = Erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second.size_bytes == address) {
      address = previous->first;
      block.size_bytes += previous->second.size_bytes;
      for (const Fence& other : previous->second.fences) AddFence(&block.fences, other);
      Erase(previous);
    }
  }
  Insert(address, std::move(block));
}

bool Pool::Grow(std::uint64_t size_bytes) {
  DeviceMemory& memory = *machine_->FindDevice(device_)->memory;
  PhysicalPtr physical = memory.Allocate(RoundUp(size_bytes, kGrowthBytes));
  if (physical == nullptr) physical = memory.Allocate(size_bytes);
  if (physical == nullptr) return false;
  const std::uint64_t mapped_bytes = physical->size_bytes;
  const CUdeviceptr chunk = machine_->space.Reserve(mapped_bytes, kPageBytes, 0);
  if (chunk == 0) return false;
  Mapping mapping{mapped_bytes, std::move(physical), Mapping::Kind::kPool};
  for (const auto& [device, flags] : access_) mapping.SetAccess(device, flags);
  machine_->space.Map(chunk, std::move(mapping));
  chunks_.emplace(chunk, mapped_bytes);
  reserved_bytes_ += mapped_bytes;
  reserved_high_bytes_ = std::max(reserved_high_bytes_, reserved_bytes_);
  Insert(chunk, {mapped_bytes, {}});  // not merged: a neighbour may still be waited for
  return true;
}

void Pool::TrimTo(std::uint64_t keep_bytes) {
  for (auto it = chunks_.end(); it != chunks_.begin() && reserved_bytes_ > keep_bytes;) {
    --it;
    const auto [chunk, chunk_bytes] = *it;
    auto free = free_.upper_bound(chunk);
    if (free == free_.begin()) continue;
    --free;
    const CUdeviceptr free_begin = free->first;
    const CUdeviceptr free_end = free_begin + free->second.size_bytes;
    if (chunk + chunk_bytes > free_end) continue;
    std::erase_if(free->second.fences, [](const Fence& fence) { return fence.Passed(); });
    if (!free->second.fences.empty()) continue;
    Erase(free);
    if (free_begin < chunk) Insert(free_begin, {chunk - free_begin, {}});
    if (chunk + chunk_bytes < free_end) Insert(chunk + chunk_bytes, {free_end - chunk - chunk_bytes, {}});
    machine_->space.Unmap(chunk, chunk_bytes, Mapping::Kind::kPool);
    machine_->space.Free(chunk, chunk_bytes);
    reserved_bytes_ -= chunk_bytes;
    it = chunks_.erase(it);
  }
}

void Pool::Insert(CUdeviceptr address, FreeBlock block) {
  free_by_size_.emplace(block.size_bytes, address);
  free_.emplace(address, std::move(block));
}

std::map<CUdeviceptr, Pool::FreeBlock>::iterator Pool::Erase(std::map<CUdeviceptr, FreeBlock>::iterator it) {
  free_by_size_.erase({it->second.size_bytes, it->first});
  return free_.erase(it);
}

void Pool::SetAccess(int device, CUmemAccess_flags flags) {
  access_[device] = flags;
  for (const auto& [chunk, size_bytes] : chunks_) machine_->space.Find(chunk)->SetAccess(device, flags);
}

CUmemAccess_flags Pool::GetAccess(int device) const {
  const auto it = access_.find(device);
  return it == access_.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : it->second;
}

CUresult Pool::GetAttribute(CUmemPool_attribute attribute, void* value) const {
  const auto put_int = [&](int number) { std::memcpy(value, &number, sizeof(number)); };
  const auto put_bytes = [&](cuuint64_t bytes) { std::memcpy(value, &bytes, sizeof(bytes)); };
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      put_int(reuse_follow_event_dependencies_);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      put_int(reuse_opportunistic_);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      put_int(reuse_internal_dependencies_);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      put_bytes(release_threshold_bytes_);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      put_bytes(reserved_bytes_);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      put_bytes(reserved_high_bytes_);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      put_bytes(used_bytes_);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      put_bytes(used_high_bytes_);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult Pool::SetAttribute(CUmemPool_attribute attribute, const void* value) {
  int number = 0;
  cuuint64_t bytes = 0;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      std::memcpy(&reuse_follow_event_dependencies_, value, sizeof(number));
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      std::memcpy(&reuse_opportunistic_, value, sizeof(number));
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      std::memcpy(&reuse_internal_dependencies_, value, sizeof(number));
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      std::memcpy(&release_threshold_bytes_, value, sizeof(bytes));
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      std::memcpy(&bytes, value, sizeof(bytes));
      if (bytes != 0) return CUDA_ERROR_INVALID_VALUE;  // a reset is all that is allowed
      if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        used_high_bytes_ = used_bytes_;
      else
        reserved_high_bytes_ = reserved_bytes_;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace stalloc::simcuda
