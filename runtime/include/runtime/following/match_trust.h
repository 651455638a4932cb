// MatchTrust: does a plan, the one in force or the next, speak of what the program does right now?
//
// A program that does something else for a while (an evaluation between training steps) still makes requests that the
// plan knows: the same weights are cast, the same small constants made. Served from the plan, such blocks lie here and
// there in room that is otherwise free, and what comes in between, which the plan does not know, gets no whole pages.
// So places are given while the plan knows at least as much as it does not, counted over the last requests, and from
// the beginning of an iteration on; a few known ones in a row are enough to trust it again. A large request that the
// plan does not know counts as several: in an iteration of another shape (images of another aspect) most requests are
// small and the same, but the few that differ are nearly all of the memory.
//
// Under the device's lock.
#pragma once

#include <algorithm>
#include <cstdint>

namespace stalloc::runtime {

class MatchTrust {
 public:
  // A plan is the next, comes into force, or its iteration begins.
  void Begin() noexcept { trust_ = kFull; }

  void Unknown(bool large) noexcept {
    in_a_row_ = 0;
    trust_ -= std::min(trust_, large ? kLarge : 1);
  }

  // The plan knows a request. Returns whether it is to lie where the plan says.
  bool Known() noexcept {
    if (++in_a_row_ >= kEnough) trust_ = kFull;
    if (trust_ < kFull) ++trust_;
    return trust_ >= kFull / 2;
  }

 private:
  // Chosen on replays of training with evaluations: from 16 to 32 and from 4 to 8 alike.
  static constexpr std::uint32_t kFull = 32;
  static constexpr std::uint32_t kEnough = 8;
  static constexpr std::uint32_t kLarge = 4;  // likewise: from 4 to 16 alike

  std::uint32_t trust_ = kFull;
  std::uint32_t in_a_row_ = 0;
};

}  // namespace stalloc::runtime
