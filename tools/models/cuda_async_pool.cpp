// The driver's stream-ordered pool behind cudaMallocAsync, as PyTorch sets it up: nothing is released until asked, and
// memory freed on a stream is reused by it at once.
//
// The driver does not document its policy. Modelled is what comes closest to what it was measured to hold: one range of
// addresses in which physical memory is mapped as it grows, in multiples of 2 MiB; requests served best fit, free
// neighbours merged; a request that finds no room gets new memory of its own, without the free room before it.
// What is not: reuse across streams (by events or by waits that the driver inserts): here any stream reuses at once.
#include <unordered_map>

#include "tools/models/allocator_model.h"
#include "tools/models/free_ranges.h"

namespace stalloc::tools {
namespace {

constexpr std::uint64_t kBlockAlignmentBytes = 512;
constexpr std::uint64_t kPageBytes = 2ull << 20;

class CudaAsyncPool : public AllocatorModel {
 public:
  void Allocate(std::uint64_t block, std::uint64_t size_bytes, std::uint64_t /*stream*/) override {
    const std::uint64_t size = RoundUp(size_bytes, kBlockAlignmentBytes);
    std::optional<FreeRanges::Range> range = free_.TakeBestFit(size);
    if (!range) {
      range = {mapped_bytes_, mapped_bytes_ + RoundUp(size, kPageBytes)};
      mapped_bytes_ = range->end;
      ++map_calls_;
    }
    if (range->size() > size) free_.Insert({range->begin + size, range->end});
    live_.emplace(block, FreeRanges::Range{range->begin, range->begin + size});
  }

  void Free(std::uint64_t block) override {
    const auto it = live_.find(block);
    if (it == live_.end()) return;
    free_.Insert(it->second);
    live_.erase(it);
  }

  std::uint64_t reserved_bytes() const override { return mapped_bytes_; }
  std::uint64_t map_calls() const override { return map_calls_; }

 private:
  FreeRanges free_;
  std::unordered_map<std::uint64_t, FreeRanges::Range> live_;
  std::uint64_t mapped_bytes_ = 0;
  std::uint64_t map_calls_ = 0;
};

}  // namespace

std::unique_ptr<AllocatorModel> MakeCudaAsyncPool() { return std::make_unique<CudaAsyncPool>(); }

}  // namespace stalloc::tools
