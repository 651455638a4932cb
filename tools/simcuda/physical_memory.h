// PhysicalMemory: what a device has, who holds how much of it. Called under the machine's lock, except the counters.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "contents.h"
#include "shared_devices.h"

namespace stalloc::simcuda {

inline constexpr std::uint64_t kPageBytes = 2ull << 20;  // minimum and recommended granularity

constexpr std::uint64_t RoundUp(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

class DeviceMemory;

// A piece of physical memory. It lives as long as a handle or a mapping refers to it.
struct PhysicalAllocation {
  // `counted`: as memory that this process holds; otherwise another one does.
  PhysicalAllocation(std::shared_ptr<DeviceMemory> memory, std::uint64_t allocation_bytes, bool counts = true);
  ~PhysicalAllocation();
  PhysicalAllocation(const PhysicalAllocation&) = delete;
  PhysicalAllocation& operator=(const PhysicalAllocation&) = delete;

  const std::shared_ptr<DeviceMemory> device;
  const std::uint64_t size_bytes;
  const bool counted;
  Contents contents;
};

using PhysicalPtr = std::shared_ptr<PhysicalAllocation>;

class DeviceMemory : public std::enable_shared_from_this<DeviceMemory> {
 public:
  // `shared`: what other processes hold; null: nothing.
  DeviceMemory(int device_index, std::uint64_t total, SharedDevices* shared = nullptr)
      : index_(device_index), total_bytes_(total), shared_(shared) {}

  // `size_bytes` is rounded up to whole pages. Null when the device has not that much left.
  PhysicalPtr Allocate(std::uint64_t size_bytes) {
    const std::uint64_t size = RoundUp(size_bytes, kPageBytes);
    if (size < size_bytes || size > total_bytes_ - used_bytes_ ||
        (shared_ != nullptr && !shared_->Take(index_, size, total_bytes_))) {
      ++refused_requests_;
      return nullptr;
    }
    return std::make_shared<PhysicalAllocation>(shared_from_this(), size);
  }

  int index() const { return index_; }
  std::uint64_t total_bytes() const { return total_bytes_; }
  std::uint64_t used_bytes() const { return used_bytes_; }
  // By all processes.
  std::uint64_t free_bytes() const {
    const std::uint64_t used = shared_ != nullptr ? shared_->UsedBytes(index_) : used_bytes_.load();
    return total_bytes_ - std::min(used, total_bytes_);
  }
  std::uint64_t peak_bytes() const { return peak_bytes_; }
  std::uint64_t refused_requests() const { return refused_requests_; }
  void ResetPeak() { peak_bytes_ = used_bytes_.load(); }

 private:
  friend struct PhysicalAllocation;

  const int index_;
  const std::uint64_t total_bytes_;
  SharedDevices* const shared_;
  std::atomic<std::uint64_t> used_bytes_ = 0;
  std::atomic<std::uint64_t> peak_bytes_ = 0;
  std::atomic<std::uint64_t> refused_requests_ = 0;
};

inline PhysicalAllocation::PhysicalAllocation(std::shared_ptr<DeviceMemory> memory, std::uint64_t allocation_bytes,
                                              bool counts)
    : device(std::move(memory)), size_bytes(allocation_bytes), counted(counts), contents(allocation_bytes) {
  if (!counted) return;
  device->used_bytes_ += size_bytes;
  if (device->used_bytes_ > device->peak_bytes_) device->peak_bytes_ = device->used_bytes_.load();
}

inline PhysicalAllocation::~PhysicalAllocation() {
  if (!counted) return;
  device->used_bytes_ -= size_bytes;
  if (device->shared_ != nullptr) device->shared_->Return(device->index_, size_bytes);
}

}  // namespace stalloc::simcuda
