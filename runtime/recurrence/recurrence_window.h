// Window: the last requests of a device with their lifetimes, as far as they are known.
//
// Used by the background thread only; allocates. Bounded: when kCapacity requests are held, the oldest half goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "runtime/base/flat_map.h"
#include "runtime/recurrence/observation.h"

namespace stalloc::runtime::recurrence {

inline constexpr std::int64_t kOpen = std::numeric_limits<std::int64_t>::max();

struct Request {
  std::uint64_t block = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t call_site = 0;
  std::uint64_t token = 0;      // of call site, size and stream
  std::int64_t begin = 0;       // event ordinal
  std::int64_t end = kOpen;     // event ordinal; kOpen: not freed yet
  std::int64_t live_bytes = 0;  // just before, without what was live before the first observation
  std::uint32_t stream = 0;
};

class Window {
 public:
  static constexpr std::size_t kCapacity = 1u << 18;

  void Observe(const Observation& observation);
  std::span<const Request> requests() const noexcept { return requests_; }
  std::uint64_t dropped() const noexcept { return dropped_; }  // requests that came before requests()[0]

 private:
  std::vector<Request> requests_;
  std::uint64_t dropped_ = 0;  // requests that were in front of requests_[0]
  struct Open {
    std::uint64_t number = 0;  // of the request, counted with the dropped ones
    std::uint64_t size_bytes = 0;
  };
  FlatMap<Open> open_{4096};  // by block + 1; of dropped requests too, so that live_bytes_ stays right
  std::int64_t events_ = 0;
  std::int64_t live_bytes_ = 0;
};

}  // namespace stalloc::runtime::recurrence
