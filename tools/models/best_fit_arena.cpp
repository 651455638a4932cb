// The simplest peer: one contiguous arena, best fit by bytes, grown at its end when nothing fits.
//
// No streams (a block is reused by any of them at once), no small-block pool, pages of 2 MiB. What it holds beyond the
// live bytes is pure external fragmentation, so it is the yardstick for what sharing pages and planning remove.
#include "tools/models/one_range.h"

namespace stalloc::tools {
namespace {

class BestFitArena : public OneRange {
  std::uint64_t NewRoom(FreeRanges* free, std::uint64_t mapped_bytes) override {
    const std::optional<FreeRanges::Range> tail = free->TakeEndingAt(mapped_bytes);
    return tail ? tail->begin : mapped_bytes;
  }
};

}  // namespace

std::unique_ptr<AllocatorModel> MakeBestFitArena() { return std::make_unique<BestFitArena>(); }

}  // namespace stalloc::tools
