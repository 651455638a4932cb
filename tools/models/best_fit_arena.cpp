// The simplest peer: one contiguous arena, best fit by bytes, grown at its end when nothing fits.
//
// No streams (a block is reused by any of them at once), no small-block pool, pages of 2 MiB. What it holds beyond the
// live bytes is pure external fragmentation, so it is the yardstick for what sharing pages and planning remove.
#include <unordered_map>

#include "tools/models/allocator_model.h"
#include "tools/models/free_ranges.h"

namespace stalloc::tools {
namespace {

constexpr std::uint64_t kBlockAlignmentBytes = 512;
constexpr std::uint64_t kPageBytes = 2ull << 20;

class BestFitArena : public AllocatorModel {
 public:
  void Allocate(std::uint64_t block, std::uint64_t size_bytes, std::uint64_t /*stream*/) override {
    const std::uint64_t size = RoundUp(size_bytes, kBlockAlignmentBytes);
    std::optional<FreeRanges::Range> range = free_.TakeBestFit(size);
    if (!range) {
      const std::optional<FreeRanges::Range> tail = free_.TakeEndingAt(mapped_bytes_);
      const std::uint64_t begin = tail ? tail->begin : mapped_bytes_;
      mapped_bytes_ = RoundUp(begin + size, kPageBytes);
      ++map_calls_;
      range = {begin, mapped_bytes_};
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

std::unique_ptr<AllocatorModel> MakeBestFitArena() { return std::make_unique<BestFitArena>(); }

}  // namespace stalloc::tools
