// What the learner sees of the program: one allocation or free, in the order in which the device's requests were
// served.
#pragma once

#include <cstdint>

namespace stalloc::runtime {

struct Observation {
  enum class Op : std::uint8_t { kAllocate, kFree };
  Op op = Op::kAllocate;
  std::uint32_t stream = 0;      // ordinal of the stream within the device (first seen = 0)
  std::uint64_t block = 0;       // allocation number on this device; a free names the allocation it ends
  std::uint64_t size_bytes = 0;  // as requested
  std::uint64_t call_site = 0;   // stack hash; 0 where it is not known (a replayed trace): size and order must do then
};

}  // namespace stalloc::runtime
