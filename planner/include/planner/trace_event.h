// One event of a trace: what the recorder writes for every request that the program makes, and for what it says of the
// order between its streams.
#pragma once

#include <cstdint>

namespace stalloc::planner {

struct TraceEvent {
  // kRecord: the CUDA event `block` is recorded on `stream`; kWait: `stream` waits for it. Order events have no size.
  enum class Op : std::uint8_t { kAllocate = 1, kFree = 2, kRecord = 3, kWait = 4 };
  enum class Served : std::uint8_t { kUnknown = 0, kPlanned = 1, kOnline = 2, kPassed = 3 };

  Op op = Op::kAllocate;
  Served served = Served::kUnknown;
  std::uint8_t device = 0;   // ordinal as the process sees it
  std::uint8_t flags = 0;    // kHasStream: the event carries a stream order; otherwise it orders against all work
  std::uint32_t stream = 0;  // ordinal of the stream within the process (0: first seen)
  std::uint32_t thread = 0;  // ordinal of the thread within the process
  std::uint32_t reserved = 0;
  std::uint64_t sequence = 0;    // total order of the process's events
  std::uint64_t block = 0;       // allocation number; a free names the allocation it ends; order events: the CUDA
                                 // event, a number that is its own while it lives
  std::uint64_t size_bytes = 0;  // as requested; for a free, the block's
  std::uint64_t call_site = 0;   // stack hash; 0: not taken
  std::uint64_t time_ns = 0;     // since the recorder started

  static constexpr std::uint8_t kHasStream = 1;

  bool IsRequest() const { return op == Op::kAllocate || op == Op::kFree; }

  friend bool operator==(const TraceEvent&, const TraceEvent&) = default;
};

static_assert(sizeof(TraceEvent) == 56);

}  // namespace stalloc::planner
