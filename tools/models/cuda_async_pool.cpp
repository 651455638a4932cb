// The driver's stream-ordered pool behind cudaMallocAsync, as PyTorch sets it up: nothing is released until asked, and
// memory freed on a stream is reused by it at once.
//
// The driver does not document its policy. Modelled is what comes closest to what it was measured to hold: one range of
// addresses in which physical memory is mapped as it grows, in multiples of 2 MiB; requests served best fit, free
// neighbours merged; a request that finds no room gets new memory of its own, without the free room before it.
// What is not: reuse across streams (by events or by waits that the driver inserts): here any stream reuses at once.
#include "tools/models/one_range.h"

namespace stalloc::tools {
namespace {

class CudaAsyncPool : public OneRange {
  std::uint64_t NewRoom(FreeRanges* /*free*/, std::uint64_t mapped_bytes) override { return mapped_bytes; }
};

}  // namespace

std::unique_ptr<AllocatorModel> MakeCudaAsyncPool() { return std::make_unique<CudaAsyncPool>(); }

}  // namespace stalloc::tools
