// The host's memory as a thread of a test finds it: `new` fails once so much has been had.
#pragma once

namespace stalloc::runtime {

class HostMemory {
 public:
  // While this lives, so many more allocations of this thread succeed.
  explicit HostMemory(int allocations) noexcept;
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  static bool exhausted() noexcept;
  // For as long as the calling thread lives.
  static void Exhaust() noexcept;
};

}  // namespace stalloc::runtime
