// TimeBudget: how much time the least memory may cost, and how much more is held where it costs more.
//
// Holding no more than what is live has its price where a program does not repeat itself, or works on several streams:
// requests are stitched from free pages at tens of microseconds a page, and memory is waited for that another stream
// has not done with. As long as both take no more than kShare of the time, the least memory is held. Where they keep
// taking more, the pool may grow beyond what is live, by as much as the cost says and then by ever more, until they do
// not, or until growing is seen not to help.
//
// Time is looked at in windows (CostWindow); those in which the peak of live bytes rises do not count, nor, as long as
// nothing was given, does a window that cost less than half of the one before: such a program is settling by itself.
// What was given stays until somebody is refused memory.
//
// Not thread-safe: the device's lock is held around every call. Neither allocates nor asks the clock.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/device/cost_window.h"

namespace stalloc::runtime {

class TimeBudget {
 public:
  static constexpr double kShare = 0.04;      // of the time
  static constexpr double kMostGrowth = 1.5;  // held over the peak of live bytes
  static constexpr double kStep = 0.02;       // more of it, at least

  using Moment = CostWindow::Moment;  // when a request has been stitched or waited for

  // `growth` nullopt: by the time that is spent. Otherwise it is this, whatever it costs.
  explicit TimeBudget(std::optional<double> growth) : automatic_(!growth), growth_(growth.value_or(1.0)) {}

  bool automatic() const noexcept { return automatic_; }
  // The pool may grow to this multiple of the peak of live bytes before a request is stitched or waited for.
  double growth() const noexcept { return growth_; }

  // `cost_ns` were spent since the last call, on the host or by a stream that waited. True: the budget is exceeded, and
  // if memory is ample for kStep more, Raise should be called.
  bool Spent(std::uint64_t cost_ns, const Moment& moment) noexcept;

  // `most`: what memory is ample for, at least kStep more than growth(). False: nothing was given, for growing does not
  // help, or another thread has begun a window anew since the budget was exceeded.
  bool Raise(double most) noexcept;

  // What is spent just now is not what the least memory costs: windows begin anew.
  void Pause() noexcept;

  // Somebody was refused memory: as little as can be is held again.
  void MemoryIsShort() noexcept;

 private:
  // A step hands out two to sixteen times what is live at its peak (the recorded training runs): a window is an
  // iteration or two of most programs, several of one whose iterations are short, and a part of one that hands out
  // much.
  static constexpr double kTurnovers = 4.0;
  static constexpr std::uint64_t kLeastNs = 250'000'000;

  void BeginAnew() noexcept { windows_ = 0, shares_ = 0.0; }
  double mean_share() const noexcept { return shares_ / windows_; }
  // So much was given since it was last judged that the cost should have fallen.
  bool to_be_judged() const noexcept;

  const bool automatic_;
  double growth_;
  CostWindow window_{kTurnovers, kLeastNs};
  double share_ = 0.0;  // of the last window that counts
  // Windows one after the other: that exceeded the budget; once something is given, all since then, or since kToJudge
  // were within it.
  unsigned windows_ = 0;
  double shares_ = 0.0;         // sum over these
  double share_before_ = 0.0;   // when it was last judged whether growing helps, or begun to grow
  double growth_before_ = 1.0;  // likewise
  unsigned raises_ = 0;         // since then
  bool in_vain_ = false;        // growing does not help
};

}  // namespace stalloc::runtime
