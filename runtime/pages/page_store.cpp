#include "runtime/pages/page_store.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace stalloc::runtime {

namespace {
// The base range is larger than the device so that blocks which cannot move never keep it from growing at its end; the
// view range is address space only and holds many aliases of every page.
constexpr std::size_t kBaseFactor = 2;
constexpr std::size_t kViewFactor = 16;
// What can be counted in granules: two tebibytes.
constexpr std::size_t kMostBaseBytes = ~Granule{0} / kPageGranules * kPageBytes;

CUmemAccessDesc AccessOf(CUdevice device, CUmemAccess_flags flags) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = flags;
  return access;
}

std::size_t RoundUpToPage(std::size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }
}  // namespace

CUresult PageStore::Reserve(std::size_t memory_bytes) noexcept {
  const std::size_t base_bytes = std::min(RoundUpToPage(memory_bytes) * kBaseFactor, kMostBaseBytes);
  const std::size_t views_bytes = RoundUpToPage(memory_bytes) * kViewFactor;
  CUdeviceptr base = 0;
  CUdeviceptr views = 0;
  if (CUresult result = driver_.cuMemAddressReserve(&base, base_bytes, kPageBytes, 0, 0); result != CUDA_SUCCESS)
    return result;
  if (CUresult result = driver_.cuMemAddressReserve(&views, views_bytes, kPageBytes, 0, 0); result != CUDA_SUCCESS) {
    driver_.cuMemAddressFree(base, base_bytes);
    return result;
  }
  try {
    handles_ = LazyArray<CUmemGenericAllocationHandle>(base_bytes / kPageBytes);
    base_mapped_ = MappedPages(base_bytes / kPageBytes);
    views_mapped_ = MappedPages(views_bytes / kPageBytes);
  } catch (const std::bad_alloc&) {
    driver_.cuMemAddressFree(base, base_bytes);
    driver_.cuMemAddressFree(views, views_bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  // As memory of cuMemAlloc is: network cards and other devices may be given it.
  int rdma = 0;
  rdma_ = driver_.cuDeviceGetAttribute(&rdma, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device_) ==
              CUDA_SUCCESS &&
          rdma != 0;
  base_ = base;
  views_ = views;
  base_bytes_ = base_bytes;
  views_bytes_ = views_bytes;
  return CUDA_SUCCESS;
}

CUresult PageStore::SetAccess(CUdeviceptr address, std::size_t bytes, Peers which) noexcept {
  std::array<CUmemAccessDesc, kMaxDevices + 1> access;
  std::size_t count = 0;
  access[count++] = AccessOf(device_, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  if (peers_ != nullptr) {
    peers_->ForEach([&](CUdevice peer, CUmemAccess_flags flags) {
      if (which == Peers::kAll || flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) access[count++] = AccessOf(peer, flags);
    });
  }
  const CUresult result = driver_.cuMemSetAccess(address, bytes, access.data(), count);
  // A peer that the driver refuses here, though it let the program name it, must not cost the device its own memory.
  return result == CUDA_SUCCESS || count == 1 ? result : driver_.cuMemSetAccess(address, bytes, access.data(), 1);
}

// Makes what has just been mapped accessible, and known as mapped. Whoever changes the peers' access walks what is
// known as mapped after he has said so; what he did not find there yet, finds here that he has spoken.
CUresult PageStore::Open(MappedPages& mapped, CUdeviceptr range, std::size_t first, std::size_t count) noexcept {
  const CUdeviceptr address = range + first * kPageBytes;
  std::uint64_t seen = peers_ != nullptr ? peers_->version() : 0;
  if (const CUresult result = SetAccess(address, count * kPageBytes); result != CUDA_SUCCESS) return result;
  mapped.Set(first, count);
  while (peers_ != nullptr && peers_->version() != seen) {
    seen = peers_->version();
    SetAccess(address, count * kPageBytes, Peers::kAll);
  }
  return CUDA_SUCCESS;
}

CUresult PageStore::ApplyAccess(CUdevice peer) noexcept {
  if (peers_ == nullptr || base_ == 0 || peer == device_) return CUDA_SUCCESS;
  const SpentTimer timer(cost_.spent, Cause::kMapping);
  CUresult result = CUDA_SUCCESS;
  std::uint64_t seen = 0;
  do {
    seen = peers_->version();
    result = ApplyAccessTo(base_mapped_, base_, peer);
    const CUresult of_views = ApplyAccessTo(views_mapped_, views_, peer);
    if (result == CUDA_SUCCESS) result = of_views;
  } while (peers_->version() != seen);
  return result;
}

CUresult PageStore::ApplyAccessTo(MappedPages& mapped, CUdeviceptr range, CUdevice peer) noexcept {
  const CUmemAccessDesc access = AccessOf(peer, peers_->FlagsOf(peer));
  CUresult result = CUDA_SUCCESS;
  mapped.ForEachRun([&](std::size_t first, std::size_t count) {
    if (driver_.cuMemSetAccess(range + first * kPageBytes, count * kPageBytes, &access, 1) == CUDA_SUCCESS) return;
    // Somebody may be taking pages out of the run: the others get it one by one.
    for (std::size_t page = first; page < first + count; ++page) {
      const CUresult one = driver_.cuMemSetAccess(range + page * kPageBytes, kPageBytes, &access, 1);
      if (one != CUDA_SUCCESS && mapped.Has(page) && result == CUDA_SUCCESS) result = one;
    }
  });
  return result;
}

CUresult PageStore::Grow(PageNumber first, PageNumber count) noexcept {
  const SpentTimer timer(cost_.spent, Cause::kMapping);
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device_;
  properties.allocFlags.gpuDirectRDMACapable = rdma_ ? 1 : 0;
  PageNumber done = 0;
  CUresult result = CUDA_SUCCESS;
  for (; done < count; ++done) {
    CUmemGenericAllocationHandle& handle = handles_[first + done];
    result = driver_.cuMemCreate(&handle, kPageBytes, &properties, 0);
    if (result != CUDA_SUCCESS) break;
    result = driver_.cuMemMap(base_ + std::size_t{first + done} * kPageBytes, kPageBytes, 0, handle, 0);
    if (result != CUDA_SUCCESS) {
      driver_.cuMemRelease(handle);
      handle = 0;
      break;
    }
  }
  if (result == CUDA_SUCCESS) result = Open(base_mapped_, base_, first, count);
  cost_.map_calls.fetch_add(done, std::memory_order_relaxed);
  if (result != CUDA_SUCCESS) Shrink(first, done);
  return result;
}

void PageStore::Shrink(PageNumber first, PageNumber count) noexcept {
  const SpentTimer timer(cost_.spent, Cause::kMapping);
  base_mapped_.Clear(first, count);
  for (PageNumber page = first; page < first + count; ++page) {
    driver_.cuMemUnmap(base_ + std::size_t{page} * kPageBytes, kPageBytes);
    driver_.cuMemRelease(handles_[page]);
    handles_[page] = 0;
  }
  cost_.unmap_calls.fetch_add(count, std::memory_order_relaxed);
}

void PageStore::TrimDriversPool() noexcept {
  if (driver_.cuMemPoolTrimTo == nullptr || driver_.cuDeviceGetDefaultMemPool == nullptr) return;
  CUmemoryPool pool = nullptr;
  if (driver_.cuDeviceGetDefaultMemPool(&pool, device_) == CUDA_SUCCESS) driver_.cuMemPoolTrimTo(pool, 0);
}

void PageStore::Abandon() noexcept {
  views_mapped_.ForEachRun([&](std::size_t first, std::size_t count) { UnmapView(first * kPageBytes, count); });
  base_mapped_.ForEachRun([&](std::size_t first, std::size_t count) {
    Shrink(static_cast<PageNumber>(first), static_cast<PageNumber>(count));
  });
  driver_.cuMemAddressFree(views_, views_bytes_);
  driver_.cuMemAddressFree(base_, base_bytes_);
}

CUresult PageStore::MapView(std::size_t offset_bytes, std::span<const PageNumber> pages) noexcept {
  const SpentTimer timer(cost_.spent, Cause::kMapping);
  const CUdeviceptr address = views_ + offset_bytes;
  std::size_t done = 0;
  CUresult result = CUDA_SUCCESS;
  for (; done < pages.size() && result == CUDA_SUCCESS; ++done)
    result = driver_.cuMemMap(address + done * kPageBytes, kPageBytes, 0, handles_[pages[done]], 0);
  if (result != CUDA_SUCCESS) --done;
  cost_.map_calls.fetch_add(done, std::memory_order_relaxed);
  if (result == CUDA_SUCCESS) result = Open(views_mapped_, views_, offset_bytes / kPageBytes, pages.size());
  if (result != CUDA_SUCCESS) UnmapView(offset_bytes, done);
  return result;
}

CUresult PageStore::ExchangePages(std::size_t offset_bytes, std::size_t mapped_pages, std::span<const PageNumber> pages,
                                  std::span<const std::uint32_t> positions) noexcept {
  const SpentTimer timer(cost_.spent, Cause::kMapping);
  const CUdeviceptr address = views_ + offset_bytes;
  std::size_t unmapped = 0;
  std::size_t mapped = 0;
  CUresult result = CUDA_SUCCESS;
  const std::size_t first = offset_bytes / kPageBytes;
  for (const std::uint32_t k : positions) {
    if (k >= mapped_pages) break;
    ++unmapped;
    views_mapped_.Clear(first + k, 1);
    driver_.cuMemUnmap(address + k * kPageBytes, kPageBytes);
  }
  for (; mapped < positions.size() && result == CUDA_SUCCESS; ++mapped) {
    const std::uint32_t k = positions[mapped];
    result = driver_.cuMemMap(address + k * kPageBytes, kPageBytes, 0, handles_[pages[k]], 0);
  }
  if (result != CUDA_SUCCESS) --mapped;
  // One call for each run of neighbouring positions.
  for (std::size_t i = 0; i < positions.size() && result == CUDA_SUCCESS;) {
    std::size_t j = i + 1;
    while (j < positions.size() && positions[j] == positions[j - 1] + 1) ++j;
    result = Open(views_mapped_, views_, first + positions[i], j - i);
    i = j;
  }
  cost_.map_calls.fetch_add(mapped, std::memory_order_relaxed);
  cost_.unmap_calls.fetch_add(unmapped, std::memory_order_relaxed);
  if (result == CUDA_SUCCESS) return result;
  views_mapped_.Clear(first, pages.size());
  for (std::uint32_t k = 0; k < pages.size(); ++k) {
    const auto position = std::find(positions.begin(), positions.end(), k);
    if (position == positions.end() || static_cast<std::size_t>(position - positions.begin()) < mapped)
      driver_.cuMemUnmap(address + k * kPageBytes, kPageBytes);
  }
  return result;
}

void PageStore::UnmapView(std::size_t offset_bytes, std::size_t page_count) noexcept {
  const SpentTimer timer(cost_.spent, Cause::kMapping);
  views_mapped_.Clear(offset_bytes / kPageBytes, page_count);
  // One call unmaps any number of whole mappings.
  if (page_count != 0) driver_.cuMemUnmap(views_ + offset_bytes, page_count * kPageBytes);
  cost_.unmap_calls.fetch_add(page_count, std::memory_order_relaxed);
}

}  // namespace stalloc::runtime
