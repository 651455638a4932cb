// CostWindow: the share of a program's time that its memory costs, one stretch of the program after the other.
//
// Each stretch takes as long, and hands out as many times the peak, as its user says: about an iteration or two of most
// programs. Where the peak of live bytes rises within one it begins anew: the program has not shown all its sizes.
//
// Not thread-safe: the device's lock is held around every call. Neither allocates nor asks the clock.
#pragma once

#include <cstdint>
#include <optional>

namespace stalloc::runtime {

class CostWindow {
 public:
  // What is known when time has been spent.
  struct Moment {
    std::uint64_t now_ns = 0;           // monotonic
    std::uint64_t allocated_bytes = 0;  // all that was ever handed out
    std::uint64_t peak_live_bytes = 0;
  };

  // As many times the peak of live bytes are handed out in a window, at least, and it takes so long, at least.
  CostWindow(double turnovers, std::uint64_t least_ns) : turnovers_(turnovers), least_ns_(least_ns) {}

  // `cost_ns` were spent since the last call; the first one, and that after Restart, only begins. Returns the share of
  // the time when a window has ended.
  std::optional<double> Spent(std::uint64_t cost_ns, const Moment& moment) noexcept;

  // What has been spent so far does not count.
  void Restart() noexcept { begin_.reset(); }

  // The peak rose: the window has begun anew, and so has whoever counts windows.
  bool rose() const noexcept { return rose_; }

 private:
  const double turnovers_;
  const std::uint64_t least_ns_;
  bool rose_ = false;
  std::uint64_t cost_ns_ = 0;    // since the window began
  std::optional<Moment> begin_;  // nullopt: with the next call
};

}  // namespace stalloc::runtime
