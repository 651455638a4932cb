// A plan: what one iteration of a program asks for, and where each of its requests shall lie.
//
// The plan is advice. The runtime checks that a slot is free before it hands it out and serves online otherwise, so a
// plan that does not fit what the program does costs memory or time, never correctness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "planner/model.h"

namespace stalloc::planner {

inline constexpr Bytes kPageBytes = Bytes{2} << 20;  // the unit in which the driver hands out physical memory
inline constexpr std::size_t kLongestBeginning = std::size_t{1} << 15;  // see Plan; some iterations of some thousands

// Where a planned request lies: one run of bytes in the base range, or a list of pages that a view stitches together.
struct Slot {
  enum class Kind : std::uint8_t {
    kNone = 0,   // served online: the request keeps the sequence in step but has no address (its size varies, say)
    kRun = 1,    // [offset_bytes, offset_bytes + size)
    kPaged = 2,  // from offset_bytes of the first page on, then from page to page; the last may be partial
  };
  Kind kind = Kind::kNone;
  Bytes offset_bytes = 0;            // kRun: in the base range; kPaged: in the first page, less than kPageBytes
  std::vector<std::uint32_t> pages;  // kPaged: page numbers in the base range

  friend bool operator==(const Slot&, const Slot&) = default;
};

// One request of the iteration, in the order in which the program makes them.
//
// Its identity is (call site, size, occurrence), never the ordinal alone, so that one request more or less in some
// iteration does not shift all later ones.
struct PlannedRequest {
  std::uint64_t call_site = 0;   // stack hash, the same in every run of the program; 0: unknown
  Bytes size_bytes = 0;          // as requested, not rounded; 0: varies from iteration to iteration
  std::uint32_t occurrence = 0;  // how many requests of the same (call site, size) precede it in the iteration
  std::uint32_t stream = 0;      // ordinal of the stream within the program (first seen = 0), not a handle
  Time begin = 0;                // in [0, period)
  Time end = 0;                  // may lie beyond the period: freed in the next iteration
  Slot slot;
  bool waits = false;       // its slot may have to be waited for: another stream used the memory last
  bool waited_for = false;  // such a request waits for this one's free
  bool scales = false;      // size_bytes is the largest that was seen: in other iterations it is smaller

  friend bool operator==(const PlannedRequest&, const PlannedRequest&) = default;
};

struct Plan {
  std::uint64_t program = 0;               // fingerprint of the executable and its modules; 0: unknown
  std::uint64_t configuration = 0;         // of what it was told to do: arguments, settings; 0: unknown
  std::string device;                      // device name, as the driver reports it
  std::uint32_t device_ordinal = 0;        // on which it was made
  std::int32_t rank = -1;                  // of the process that made it; -1: it had none
  Time period = 0;                         // events (allocations and frees) in one iteration
  Bytes lower_bound_bytes = 0;             // peak of live bytes, persistent blocks included
  Bytes height_bytes = 0;                  // bytes of the base range that the plan reaches up to
  std::uint64_t page_count = 0;            // distinct pages that the plan touches, persistent blocks included
  std::vector<PlannedRequest> persistent;  // before the first iteration and never freed (weights, optimizer state)
  std::vector<PlannedRequest> iteration;
  // The sizes of the first requests of more than a page that the run made which kept the plan, in their order, to the
  // end of an iteration; empty: not known.
  std::vector<Bytes> beginning;

  friend bool operator==(const Plan&, const Plan&) = default;
};

}  // namespace stalloc::planner
