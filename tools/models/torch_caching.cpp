// PyTorch's default CUDA caching allocator.
//
// What is modelled: sizes rounded to 512 bytes; a pool for requests up to 1 MiB and one for larger ones, each per
// stream; segments of 2 MiB (small), 20 MiB (requests below 10 MiB) or the request rounded to 2 MiB; best fit among the
// cached blocks of the pool; a block is split where at least 512 bytes (small) or more than 1 MiB (large) would remain;
// neighbours of one segment merge when they are free; segments are kept until memory runs out.
// What is not: running out (the replay has all the memory there is), record_stream, and the settings that change the
// rules (max_split_size_mb, roundup_power2_divisions, garbage collection).
#include <unordered_map>

#include "tools/models/allocator_model.h"
#include "tools/models/free_ranges.h"
#include "tools/models/torch_rules.h"

namespace stalloc::tools {
namespace {

class TorchCaching : public AllocatorModel {
 public:
  void Allocate(std::uint64_t block, std::uint64_t size_bytes, std::uint64_t stream) override {
    const std::uint64_t size = torch::RoundedBytes(size_bytes);
    const torch::PoolKey key{stream, torch::IsSmall(size)};
    FreeRanges& pool = pools_[key];
    std::optional<FreeRanges::Range> range = pool.TakeBestFit(size);
    if (!range) range = NewSegment(torch::SegmentBytes(size));
    const std::uint64_t remainder = range->size() - size;
    const bool split = key.small ? remainder >= torch::kMinBlockBytes : remainder > torch::kSmallRequestBytes;
    if (split) {
      pool.Insert({range->begin + size, range->end});
      range->end = range->begin + size;
    }
    live_.emplace(block, Live{*range, &pool});
  }

  void Free(std::uint64_t block) override {
    const auto it = live_.find(block);
    if (it == live_.end()) return;
    it->second.pool->Insert(it->second.range);
    live_.erase(it);
  }

  std::uint64_t reserved_bytes() const override { return reserved_bytes_; }
  std::uint64_t map_calls() const override { return map_calls_; }

 private:
  struct Live {
    FreeRanges::Range range;
    FreeRanges* pool;
  };

  // Segments never touch each other, so that blocks of two of them never merge.
  FreeRanges::Range NewSegment(std::uint64_t size_bytes) {
    const FreeRanges::Range segment{next_address_, next_address_ + size_bytes};
    next_address_ = segment.end + torch::kMinBlockBytes;
    reserved_bytes_ += size_bytes;
    ++map_calls_;
    return segment;
  }

  std::unordered_map<torch::PoolKey, FreeRanges, torch::PoolKeyHash> pools_;  // values do not move when it grows
  std::unordered_map<std::uint64_t, Live> live_;
  std::uint64_t next_address_ = 0;
  std::uint64_t reserved_bytes_ = 0;
  std::uint64_t map_calls_ = 0;
};

}  // namespace

std::unique_ptr<AllocatorModel> MakeTorchCaching() { return std::make_unique<TorchCaching>(); }

}  // namespace stalloc::tools
