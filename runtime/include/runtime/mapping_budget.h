// MappingBudget: how much time may go into stitching, and what is given for it when that is not enough.
//
// A program that repeats itself stops mapping after a few iterations. One whose sizes are new in every step may never:
// then a request is stitched from free pages again and again, at tens of microseconds a page. As long as that takes no
// more than kShare of the time, the least memory is held. Where it keeps taking more, memory is waited for on other
// streams before it is mapped, and the pool may grow beyond what is live, by the more the further the budget is
// exceeded, up to kMostGrowth.
//
// Time is looked at in windows, each long enough for memory to be handed out many times over, so that it holds some
// iterations of any program; windows in which the peak of live bytes rises do not count, nor does a window that took
// less than half of the one before: such a program is settling by itself.
//
// Not thread-safe: the device's lock is held around every call. Neither allocates nor asks the clock.
#pragma once

#include <cstdint>
#include <optional>

namespace stalloc::runtime {

class MappingBudget {
 public:
  static constexpr double kShare = 0.04;       // of the time, for stitching
  static constexpr double kMostGrowth = 1.10;  // held over the peak of live bytes

  // What is known when a request has been stitched.
  struct Moment {
    std::uint64_t now_ns = 0;           // monotonic
    std::uint64_t allocated_bytes = 0;  // all that was ever handed out
    std::uint64_t peak_live_bytes = 0;
  };

  // `growth` nullopt: by the time that stitching takes. Otherwise it is this, whatever it takes.
  explicit MappingBudget(std::optional<double> growth) : automatic_(!growth), growth_(growth.value_or(1.0)) {}

  bool automatic() const noexcept { return automatic_; }
  // The pool may grow to this multiple of the peak of live bytes before a request is stitched.
  double growth() const noexcept { return growth_; }
  // Is room that another stream has freed waited for before pages are mapped?
  bool waits_first() const noexcept { return waits_first_; }

  // `stitching_ns` were spent in the driver for one request. True: the budget is exceeded, and Exceed should be called.
  bool Spent(std::uint64_t stitching_ns, const Moment& moment) noexcept;

  // Waits come first from now on. If `memory_is_ample`, more may be held too.
  void Exceed(bool memory_is_ample) noexcept;

  // Somebody was refused memory: as little as can be is held again.
  void MemoryIsShort() noexcept;

 private:
  const bool automatic_;
  double growth_;
  bool waits_first_ = false;
  struct Window {
    bool open = false;
    std::uint64_t stitching_ns = 0;
    Moment begin{};
  } window_;
  double share_ = 0.0;     // of the last window that counts
  unsigned exceeded_ = 0;  // so many windows one after the other
};

}  // namespace stalloc::runtime
