// What is common to models that hold one range of addresses, mapped from its beginning as far as it has grown: requests
// are served best fit by any stream, free neighbours merge, and nothing is given back.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "tools/models/allocator_model.h"
#include "tools/models/free_ranges.h"

namespace stalloc::tools {

class OneRange : public AllocatorModel {
 public:
  void Allocate(std::uint64_t block, std::uint64_t size_bytes, std::uint64_t /*stream*/) override {
    const std::uint64_t size = RoundUp(size_bytes, kBlockAlignmentBytes);
    std::optional<FreeRanges::Range> range = free_.TakeBestFit(size);
    if (!range) {
      range = FreeRanges::Range{NewRoom(&free_, mapped_bytes_), 0};
      mapped_bytes_ = range->end = RoundUp(range->begin + size, kPageBytes);
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
  static constexpr std::uint64_t kBlockAlignmentBytes = 512;
  static constexpr std::uint64_t kPageBytes = 2ull << 20;

  // Where a block begins that nothing free has room for, and behind which memory will be mapped. What is free from
  // there to `mapped_bytes` is taken out of `free`.
  virtual std::uint64_t NewRoom(FreeRanges* free, std::uint64_t mapped_bytes) = 0;

  FreeRanges free_;
  std::unordered_map<std::uint64_t, FreeRanges::Range> live_;
  std::uint64_t mapped_bytes_ = 0;
  std::uint64_t map_calls_ = 0;
};

}  // namespace stalloc::tools
