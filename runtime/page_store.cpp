#include "runtime/page_store.h"

#include <algorithm>
#include <chrono>

namespace stalloc::runtime {

namespace {
// The base range is larger than the device so that blocks which cannot move never keep it from growing at its end; the
// view range is address space only and holds many aliases of every page.
constexpr std::size_t kBaseFactor = 2;
constexpr std::size_t kViewFactor = 16;

std::size_t RoundUpToPage(std::size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }
}  // namespace

class PageStore::Timer {
 public:
  explicit Timer(Cost& cost) : cost_(cost), start_(std::chrono::steady_clock::now()) {}
  ~Timer() {
    const auto spent = std::chrono::steady_clock::now() - start_;
    cost_.map_ns.fetch_add(static_cast<std::uint64_t>(std::chrono::nanoseconds(spent).count()),
                           std::memory_order_relaxed);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  Cost& cost_;
  std::chrono::steady_clock::time_point start_;
};

CUresult PageStore::Reserve(std::size_t memory_bytes) noexcept {
  const std::size_t base_bytes = RoundUpToPage(memory_bytes) * kBaseFactor;
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
  } catch (const std::bad_alloc&) {
    driver_.cuMemAddressFree(base, base_bytes);
    driver_.cuMemAddressFree(views, views_bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  base_ = base;
  views_ = views;
  base_bytes_ = base_bytes;
  views_bytes_ = views_bytes;
  return CUDA_SUCCESS;
}

CUresult PageStore::SetAccess(CUdeviceptr address, std::size_t bytes) noexcept {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device_;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return driver_.cuMemSetAccess(address, bytes, &access, 1);
}

CUresult PageStore::Grow(PageNumber first, PageNumber count) noexcept {
  Timer timer(cost_);
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device_;
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
  if (result == CUDA_SUCCESS) result = SetAccess(base_ + std::size_t{first} * kPageBytes, count * kPageBytes);
  cost_.map_calls.fetch_add(done, std::memory_order_relaxed);
  if (result != CUDA_SUCCESS) Shrink(first, done);
  return result;
}

void PageStore::Shrink(PageNumber first, PageNumber count) noexcept {
  Timer timer(cost_);
  for (PageNumber page = first; page < first + count; ++page) {
    driver_.cuMemUnmap(base_ + std::size_t{page} * kPageBytes, kPageBytes);
    driver_.cuMemRelease(handles_[page]);
    handles_[page] = 0;
  }
  cost_.unmap_calls.fetch_add(count, std::memory_order_relaxed);
}

CUresult PageStore::MapView(std::size_t offset_bytes, std::span<const PageNumber> pages) noexcept {
  Timer timer(cost_);
  const CUdeviceptr address = views_ + offset_bytes;
  std::size_t done = 0;
  CUresult result = CUDA_SUCCESS;
  for (; done < pages.size() && result == CUDA_SUCCESS; ++done)
    result = driver_.cuMemMap(address + done * kPageBytes, kPageBytes, 0, handles_[pages[done]], 0);
  if (result != CUDA_SUCCESS) --done;
  cost_.map_calls.fetch_add(done, std::memory_order_relaxed);
  if (result == CUDA_SUCCESS) result = SetAccess(address, pages.size() * kPageBytes);
  if (result != CUDA_SUCCESS) UnmapView(offset_bytes, done);
  return result;
}

CUresult PageStore::ExchangePages(std::size_t offset_bytes, std::span<const PageNumber> pages,
                                  std::span<const std::uint32_t> positions) noexcept {
  Timer timer(cost_);
  const CUdeviceptr address = views_ + offset_bytes;
  std::size_t mapped = 0;
  CUresult result = CUDA_SUCCESS;
  for (const std::uint32_t k : positions) driver_.cuMemUnmap(address + k * kPageBytes, kPageBytes);
  for (; mapped < positions.size() && result == CUDA_SUCCESS; ++mapped) {
    const std::uint32_t k = positions[mapped];
    result = driver_.cuMemMap(address + k * kPageBytes, kPageBytes, 0, handles_[pages[k]], 0);
  }
  if (result != CUDA_SUCCESS) --mapped;
  // One call for each run of neighbouring positions.
  for (std::size_t i = 0; i < positions.size() && result == CUDA_SUCCESS;) {
    std::size_t j = i + 1;
    while (j < positions.size() && positions[j] == positions[j - 1] + 1) ++j;
    result = SetAccess(address + positions[i] * kPageBytes, (j - i) * kPageBytes);
    i = j;
  }
  cost_.map_calls.fetch_add(mapped, std::memory_order_relaxed);
  cost_.unmap_calls.fetch_add(positions.size(), std::memory_order_relaxed);
  if (result == CUDA_SUCCESS) return result;
  for (std::uint32_t k = 0; k < pages.size(); ++k) {
    const auto position = std::find(positions.begin(), positions.end(), k);
    if (position == positions.end() || static_cast<std::size_t>(position - positions.begin()) < mapped)
      driver_.cuMemUnmap(address + k * kPageBytes, kPageBytes);
  }
  return result;
}

void PageStore::UnmapView(std::size_t offset_bytes, std::size_t page_count) noexcept {
  Timer timer(cost_);
  // One call unmaps any number of whole mappings.
  if (page_count != 0) driver_.cuMemUnmap(views_ + offset_bytes, page_count * kPageBytes);
  cost_.unmap_calls.fetch_add(page_count, std::memory_order_relaxed);
}

}  // namespace stalloc::runtime
