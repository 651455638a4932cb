// PyTorch's caching allocator with expandable_segments:True.
//
// What is modelled: the size rules of the default mode, but one segment for each stream and pool, which is a range of
// addresses that grows at its end by pages (2 MiB in the small pool, 20 MiB in the large one); best fit among the free
// blocks, where the block at the growing end counts as large as it could become, so that it is taken last; every block
// is split where at least 512 bytes would remain; pages are kept until memory runs out.
// What is not: running out (when pages in the middle of a segment would be unmapped, and room found there later).
#include <limits>
#include <unordered_map>

#include "tools/models/allocator_model.h"
#include "tools/models/free_ranges.h"
#include "tools/models/torch_rules.h"

namespace stalloc::tools {
namespace {

class TorchExpandable : public AllocatorModel {
 public:
  void Allocate(std::uint64_t block, std::uint64_t size_bytes, std::uint64_t stream) override {
    const std::uint64_t size = torch::RoundedBytes(size_bytes);
    const torch::PoolKey key{stream, torch::IsSmall(size)};
    Segment& segment = segments_[key];
    std::optional<FreeRanges::Range> range = segment.free.TakeBestFit(size, [&](const FreeRanges::Range& candidate) {
      return candidate.end == segment.mapped_bytes ? std::numeric_limits<std::uint64_t>::max() : candidate.size();
    });
    if (!range) range = Grow(segment, size, key.small ? torch::kSmallSegmentBytes : torch::kMediumSegmentBytes);
    if (range->size() - size >= torch::kMinBlockBytes) {
      segment.free.Insert({range->begin + size, range->end});
      range->end = range->begin + size;
    }
    live_.emplace(block, Live{*range, &segment});
  }

  void Free(std::uint64_t block) override {
    const auto it = live_.find(block);
    if (it == live_.end()) return;
    it->second.segment->free.Insert(it->second.range);
    live_.erase(it);
  }

  std::uint64_t reserved_bytes() const override { return reserved_bytes_; }
  std::uint64_t map_calls() const override { return map_calls_; }

 private:
  struct Segment {
    FreeRanges free;
    std::uint64_t mapped_bytes = 0;
  };
  struct Live {
    FreeRanges::Range range;
    Segment* segment;
  };

  // Maps pages at the segment's end until `size` bytes are free there.
  FreeRanges::Range Grow(Segment& segment, std::uint64_t size, std::uint64_t page_bytes) {
    const std::optional<FreeRanges::Range> tail = segment.free.TakeEndingAt(segment.mapped_bytes);
    const std::uint64_t begin = tail ? tail->begin : segment.mapped_bytes;
    const std::uint64_t end = RoundUp(begin + size, page_bytes);
    map_calls_ += (end - segment.mapped_bytes) / page_bytes;  // a handle for each page
    reserved_bytes_ += end - segment.mapped_bytes;
    segment.mapped_bytes = end;
    return {begin, end};
  }

  std::unordered_map<torch::PoolKey, Segment, torch::PoolKeyHash> segments_;  // values do not move when it grows
  std::unordered_map<std::uint64_t, Live> live_;
  std::uint64_t reserved_bytes_ = 0;
  std::uint64_t map_calls_ = 0;
};

}  // namespace

std::unique_ptr<AllocatorModel> MakeTorchExpandable() { return std::make_unique<TorchExpandable>(); }

}  // namespace stalloc::tools
