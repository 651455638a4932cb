// Pool: memory in stream order, as behind cuMemAllocAsync.
//
// The driver does not document its policy; this has the parts that an allocator can notice. Requests are served best
// fit from memory that was freed: at once on the same stream, on another stream after the work before the free has
// executed, or, where the pool's attributes allow it, behind a wait that the pool inserts. Otherwise the pool grows by
// chunks of 32 MiB, in which blocks lie on 512 bytes whatever their size. Memory above the release threshold goes back
// to the device when the host synchronises. Called under the machine's lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "address_space.h"
#include "cuda_driver.h"
#include "stream.h"

namespace stalloc::simcuda {

class Pool : public std::enable_shared_from_this<Pool> {
 public:
  Pool(Machine* machine, int device) : machine_(machine), device_(device) { access_[device] = kReadWrite; }
  ~Pool();

  CUresult Allocate(const std::shared_ptr<Stream>& stream, std::uint64_t size_bytes, CUdeviceptr* address);
  // The block at `address` may be used again after `fence`.
  void Free(CUdeviceptr address, std::uint64_t size_bytes, const Fence& fence);

  // Gives free pages back whose last use has executed, until no more than `keep_bytes` are held.
  void TrimTo(std::uint64_t keep_bytes);
  void TrimToThreshold() { TrimTo(release_threshold_bytes_); }

  CUresult GetAttribute(CUmemPool_attribute attribute, void* value) const;
  CUresult SetAttribute(CUmemPool_attribute attribute, const void* value);
  void SetAccess(int device, CUmemAccess_flags flags);
  CUmemAccess_flags GetAccess(int device) const;

  int device() const { return device_; }
  CUmemoryPool handle = nullptr;
  bool destroyed = false;

 private:
  static constexpr CUmemAccess_flags kReadWrite = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

  // Free memory and what must have executed before its next use.
  struct FreeBlock {
    std::uint64_t size_bytes = 0;
    std::vector<Fence> fences;
  };
  enum class Readiness : std::uint8_t { kReady, kAfterWait, kNot };

  Readiness ReadinessOf(const FreeBlock& block, const Stream& stream) const;
  bool Grow(std::uint64_t size_bytes);
  void Insert(CUdeviceptr address, FreeBlock block);
  std::map<CUdeviceptr, FreeBlock>::iterator Erase(std::map<CUdeviceptr, FreeBlock>::iterator it);
  void ReleaseChunk(CUdeviceptr chunk, std::uint64_t size_bytes);

  Machine* machine_;
  const int device_;
  std::map<CUdeviceptr, std::uint64_t> chunks_;  // mapped pages: begin -> size
  std::map<CUdeviceptr, FreeBlock> free_;
  std::set<std::pair<std::uint64_t, CUdeviceptr>> free_by_size_;
  std::map<int, CUmemAccess_flags> access_;

  std::uint64_t release_threshold_bytes_ = 0;
  int reuse_follow_event_dependencies_ = 1;
  int reuse_opportunistic_ = 1;
  int reuse_internal_dependencies_ = 1;
  std::uint64_t used_bytes_ = 0, used_high_bytes_ = 0;
  std::uint64_t reserved_bytes_ = 0, reserved_high_bytes_ = 0;
};

}  // namespace stalloc::simcuda
