// The planning problem: lifetimes in, addresses out. Pure data, no CUDA, no process, no clock.
//
// Conventions, here and everywhere else in stalloc: intervals are half-open, [begin, end); time is an ordinal (one tick
// per allocation or free event), not seconds; sizes and offsets are in bytes.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace stalloc::planner {

using Bytes = std::uint64_t;
using Time = std::int64_t;

inline constexpr Bytes kUnlimited = std::numeric_limits<Bytes>::max();

// A block that must be given an address.
struct Request {
  Bytes size_bytes = 0;  // > 0
  Time begin = 0;        // live in [begin, end); begin < end
  Time end = 0;          // with Problem::period > 0, end may lie beyond the period (the block lives across the boundary
                         // into the next iteration), but end - begin <= period
  std::uint32_t stream = 0;  // of no account unless Problem::reusable is given

  friend bool operator==(const Request&, const Request&) = default;
};

// A block that already lies somewhere and cannot move while it lives.
struct FixedBlock {
  Bytes offset = 0;
  Bytes size_bytes = 0;
  Time begin = std::numeric_limits<Time>::min();
  Time end = std::numeric_limits<Time>::max();

  friend bool operator==(const FixedBlock&, const FixedBlock&) = default;
};

struct Problem {
  std::vector<Request> requests;
  std::vector<FixedBlock> fixed;
  Time period = 0;            // 0: time is a line. > 0: time is a circle of this length (an iteration that repeats)
  Bytes alignment_bytes = 1;  // power of two; every offset is a multiple of it
  Bytes capacity_bytes = kUnlimited;

  // Order between streams. `reusable` empty: a block's memory is free for all as soon as the block ends.
  // Otherwise one time for each request and stream: from reusable[i * streams + q] on, requests on stream q may use the
  // memory of request i, because by then their stream is ordered behind the work that used it. It equals the end for
  // the request's own stream, and is never before the end. On a circle it is at most begin + period, which means never:
  // there the block itself comes again. So requests b and c may share bytes if and only if
  //   [begin_b, reusable_b[stream of c])  and  [begin_c, reusable_c[stream of b])  do not meet.
  // Fixed blocks know no streams: a request and a fixed block share nothing while both live.
  std::uint32_t streams = 0;
  std::vector<Time> reusable;

  friend bool operator==(const Problem&, const Problem&) = default;
};

// offsets[i] is the address of Problem::requests[i]; height is the largest offset + size (0 without requests).
struct Placement {
  std::vector<Bytes> offsets;
  Bytes height_bytes = 0;

  friend bool operator==(const Placement&, const Placement&) = default;
};

}  // namespace stalloc::planner
