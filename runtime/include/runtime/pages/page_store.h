// PageStore: a device's physical pages and where they are mapped.
//
// Owns one virtual range per device onto which page i is mapped at base + i * 2 MiB (the base range), and a second
// range in which views alias pages in any order. Every member makes driver calls and is called without the device's
// lock; who may map which page at a time is decided by the caller, who has claimed it under the lock.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <span>

#include "runtime/base/driver_api.h"
#include "runtime/base/lazy_array.h"
#include "runtime/base/time_spent.h"
#include "runtime/pages/free_space.h"
#include "runtime/pages/mapped_pages.h"
#include "runtime/pages/peer_access.h"

namespace stalloc::runtime {

using PageNumber = std::uint32_t;

class PageStore {
 public:
  struct Cost {
    std::atomic<std::uint64_t> map_calls{0};  // handles mapped, base range and views
    std::atomic<std::uint64_t> unmap_calls{0};
    TimeSpent spent;  // mapping here, other causes by whoever has the pages served
  };

  // `peers` (optional) outlives this.
  PageStore(const DriverApi& driver, CUdevice device, const PeerAccess* peers = nullptr)
      : driver_(driver), device_(device), peers_(peers) {}

  // Reserves the address ranges. `memory_bytes` is the device's physical memory.
  CUresult Reserve(std::size_t memory_bytes) noexcept;

  CUdeviceptr base() const noexcept { return base_; }
  CUdeviceptr views() const noexcept { return views_; }
  std::size_t base_bytes() const noexcept { return base_bytes_; }
  std::size_t views_bytes() const noexcept { return views_bytes_; }
  PageNumber page_limit() const noexcept { return static_cast<PageNumber>(base_bytes_ / kPageBytes); }
  bool Contains(CUdeviceptr address) const noexcept {
    return address - base_ < base_bytes_ || address - views_ < views_bytes_;
  }

  // False, too, while it is being created or given back.
  bool Exists(PageNumber page) noexcept { return base_mapped_.Has(page); }

  // Creates pages [first, first + count) and maps them in the base range. All or nothing.
  CUresult Grow(PageNumber first, PageNumber count) noexcept;

  // Takes pages [first, first + count) out of the base range and gives them back to the driver. Nothing may use them.
  void Shrink(PageNumber first, PageNumber count) noexcept;

  // Makes the driver's default pool of the device give back what lies idle in it: what was passed through to it and
  // freed, and what a request that it refused had brought together by then, as long as the program's release threshold
  // keeps it. Waits for nothing.
  void TrimDriversPool() noexcept;

  // Unmaps and gives back everything, the address ranges too: the context has ended, and nothing uses them any more.
  // Threads that are still inside are refused by the driver from here on.
  void Abandon() noexcept;

  // Maps pages[k] at views() + offset + k * 2 MiB. All or nothing.
  CUresult MapView(std::size_t offset_bytes, std::span<const PageNumber> pages) noexcept;
  void UnmapView(std::size_t offset_bytes, std::size_t page_count) noexcept;

  // Exchanges single pages of a view that maps `mapped_pages`, or appends some: position k now shows pages[k], for
  // every k in `positions`, which rise. If it fails, the view's mapping is undone as a whole.
  CUresult ExchangePages(std::size_t offset_bytes, std::size_t mapped_pages, std::span<const PageNumber> pages,
                         std::span<const std::uint32_t> positions) noexcept;

  // Gives everything that is mapped the access that `peer` has by now, or takes it away. What is mapped from here on,
  // in other threads too, has it by itself. CUDA_SUCCESS, or what the driver said of the first page that it refused.
  CUresult ApplyAccess(CUdevice peer) noexcept;

  const Cost& cost() const noexcept { return cost_; }
  TimeSpent& spent() noexcept { return cost_.spent; }

 private:
  // Which changes of peers to carry out: access that somebody has, or also that somebody has no more.
  enum class Peers : bool { kThatHave, kAll };
  CUresult SetAccess(CUdeviceptr address, std::size_t bytes, Peers which = Peers::kThatHave) noexcept;
  CUresult Open(MappedPages& mapped, CUdeviceptr range, std::size_t first, std::size_t count) noexcept;
  CUresult ApplyAccessTo(MappedPages& mapped, CUdeviceptr range, CUdevice peer) noexcept;

  const DriverApi& driver_;
  const CUdevice device_;
  const PeerAccess* const peers_;
  bool rdma_ = false;
  CUdeviceptr base_ = 0;
  CUdeviceptr views_ = 0;
  std::size_t base_bytes_ = 0;
  std::size_t views_bytes_ = 0;
  LazyArray<CUmemGenericAllocationHandle> handles_;  // by page number
  MappedPages base_mapped_;
  MappedPages views_mapped_;
  Cost cost_;
};

}  // namespace stalloc::runtime
