#include "runtime/service/program_pools.h"

#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "service/served_process.h"

namespace stalloc::runtime {

constinit thread_local ProgramPool* pool_in_use = nullptr;

namespace {

// As PyTorch's own allocator has them.
constexpr std::size_t kRoundTo = 512;
constexpr std::size_t kSmall = std::size_t{1} << 20;
constexpr std::size_t kSmallSegment = std::size_t{2} << 20;
constexpr std::size_t kMedium = std::size_t{10} << 20;
constexpr std::size_t kMediumSegment = std::size_t{20} << 20;

std::size_t SegmentFor(std::size_t size_bytes) noexcept {
  if (size_bytes <= kSmall) return kSmallSegment;
  if (size_bytes < kMedium) return kMediumSegment;
  return (size_bytes + kSmallSegment - 1) / kSmallSegment * kSmallSegment;
}

// Leaves the pool while its allocator runs, which may ask CUDA for memory itself.
class Outside {
 public:
  Outside() noexcept : pool_(std::exchange(pool_in_use, nullptr)) {}
  ~Outside() { pool_in_use = pool_; }
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

 private:
  ProgramPool* const pool_;
};

}  // namespace

class ProgramPool {
 public:
  ProgramPool(PoolAllocateFunction* allocate, PoolFreeFunction* free) noexcept : allocate_(allocate), free_(free) {}

  // Throws std::bad_alloc.
  CUresult Allocate(const DriverApi& driver, CUdeviceptr* address, std::size_t size_bytes, CUstream stream) {
    CUdevice device = 0;
    if (const CUresult result = driver.cuCtxGetDevice(&device); result != CUDA_SUCCESS) return result;
    const std::size_t rounded = (size_bytes + kRoundTo - 1) / kRoundTo * kRoundTo;
    const std::lock_guard lock(mutex_);
    FreeBlocks& of = free_blocks_[{device, stream}];
    auto best = of.end();
    for (auto it = of.begin(); it != of.end(); ++it)
      if (it->second >= rounded && (best == of.end() || it->second < best->second)) best = it;
    if (best == of.end()) {
      const std::size_t segment_bytes = SegmentFor(rounded);
      const CUdeviceptr segment = AskForSegment(driver, segment_bytes, device, stream);
      if (segment == 0) return CUDA_ERROR_OUT_OF_MEMORY;
      segments_[segment] = {segment_bytes, device, stream};
      best = of.emplace(segment, segment_bytes).first;
    }
    *address = best->first;
    const std::size_t rest = best->second - rounded;
    of.erase(best);
    if (rest != 0) of.emplace(*address + rounded, rest);
    live_.emplace(*address, rounded);
    return CUDA_SUCCESS;
  }

  bool Owns(CUdeviceptr address) {
    const std::lock_guard lock(mutex_);
    return live_.contains(address);
  }

  // Throws std::bad_alloc.
  void Free(const DriverApi& driver, CUdeviceptr address, CUstream stream) {
    const std::lock_guard lock(mutex_);
    const auto block = live_.find(address);
    if (block == live_.end()) return;
    const Segment& segment = std::prev(segments_.upper_bound(address))->second;
    // Freed in another stream's order, after uses in several: rare, so that it is waited for.
    if (stream != segment.stream) driver.cuStreamSynchronize(stream);
    FreeBlocks& of = free_blocks_[{segment.device, segment.stream}];
    const auto freed = of.emplace(block->first, block->second).first;
    live_.erase(block);
    Join(&of, freed, std::next(freed));
    if (freed != of.begin()) Join(&of, std::prev(freed), freed);
    if (ended_ && live_.empty()) ReturnSegments(driver);
  }

  void End(const DriverApi& driver) {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    if (live_.empty()) ReturnSegments(driver);
  }

 private:
  struct Segment {
    std::size_t size_bytes;
    CUdevice device;
    CUstream stream;
  };
  using FreeBlocks = std::map<CUdeviceptr, std::size_t>;

  // Blocks of one segment, beside each other, become one.
  void Join(FreeBlocks* of, FreeBlocks::iterator first, FreeBlocks::iterator second) const {
    if (second == of->end() || first->first + first->second != second->first || segments_.contains(second->first))
      return;
    first->second += second->second;
    of->erase(second);
  }

  CUdeviceptr AskForSegment(const DriverApi& driver, std::size_t size_bytes, CUdevice device,
                            CUstream stream) const noexcept {
    const Outside outside;
    if (allocate_ != nullptr)
      return reinterpret_cast<CUdeviceptr>(allocate_(static_cast<std::ptrdiff_t>(size_bytes), device, stream));
    CUdeviceptr segment = 0;
    return driver.cuMemAlloc(&segment, size_bytes) == CUDA_SUCCESS ? segment : 0;
  }

  // Under the lock, when nothing lives in them.
  void ReturnSegments(const DriverApi& driver) {
    const Outside outside;
    driver.cuCtxSynchronize();
    for (const auto& [address, segment] : segments_) {
      if (free_ != nullptr) {
        free_(reinterpret_cast<void*>(address), segment.size_bytes,
              segment.device,  // NOLINT(performance-no-int-to-ptr)
              segment.stream);
      } else {
        driver.cuMemFree(address);
      }
    }
    segments_.clear();
    free_blocks_.clear();
  }

  PoolAllocateFunction* const allocate_;  // null: the driver's
  PoolFreeFunction* const free_;
  std::mutex mutex_;
  std::map<CUdeviceptr, Segment> segments_;
  std::map<std::pair<CUdevice, CUstream>, FreeBlocks> free_blocks_;
  std::map<CUdeviceptr, std::size_t> live_;
  bool ended_ = false;
};

namespace {

// Pools are few and stay: their blocks may outlive what made them.
struct AllPools {
  std::mutex mutex;
  std::vector<ProgramPool*> pools;
};
AllPools& All() {
  static AllPools& all = *new AllPools;
  return all;
}

constexpr int kMostNested = 16;
constinit thread_local ProgramPool* outer_pools[kMostNested] = {};
constinit thread_local int nested_pools = 0;

}  // namespace

ProgramPool* MakePool(PoolAllocateFunction* allocate, PoolFreeFunction* free) noexcept {
  try {
    const std::lock_guard lock(All().mutex);
    All().pools.push_back(new ProgramPool(allocate, free));
    any_pool.store(true);
    return All().pools.back();
  } catch (const std::exception&) {
    return nullptr;
  }
}

void EnterPool(ProgramPool* pool) noexcept {
  if (nested_pools < kMostNested) outer_pools[nested_pools] = pool_in_use;
  ++nested_pools;
  pool_in_use = pool;
}

void LeavePool() noexcept {
  if (--nested_pools < kMostNested) pool_in_use = outer_pools[nested_pools];
}

void EndPool(ProgramPool* pool) noexcept {
  if (Process* process = Serving()) pool->End(process->driver);
}

CUresult AllocateInPool(CUdeviceptr* address, std::size_t size_bytes, CUstream stream) noexcept {
  try {
    Process* process = Serving();
    return process == nullptr ? CUDA_ERROR_NOT_INITIALIZED
                              : pool_in_use->Allocate(process->driver, address, size_bytes, stream);
  } catch (const std::exception&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

bool FreeInPool(CUdeviceptr address, CUstream stream) noexcept {
  Process* process = Serving();
  if (process == nullptr) return false;
  ProgramPool* owner = nullptr;
  {
    const std::lock_guard lock(All().mutex);
    for (ProgramPool* pool : All().pools)
      if (pool->Owns(address)) owner = pool;
  }
  if (owner == nullptr) return false;
  try {
    owner->Free(process->driver, address, stream);
  } catch (const std::exception&) {  // for want of memory it stays
  }
  return true;
}

}  // namespace stalloc::runtime
