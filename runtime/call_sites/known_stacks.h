// KnownStacks: the call sites of stacks that a thread has walked before, found without another walk.
//
// A stack ends where one did that was walked before, and each return address is still where the walk had found it: then
// the calls are the same. They are compared from the innermost outwards, so each is read in a frame that is known to be
// there. (Only where a frame of changing size has left a stale address behind may a stack be taken for another: that
// costs a match with the plan, never correctness.)
//
// Stacks that end in one place are one set (an interpreter's loop calls many functions from the same depth); the hint
// says which of them to try first. Two of them part in the first frame that differs, and lie alike up to there, so what
// was read to refuse one mostly refuses the next as well.
//
// Each thread has a table of its own, out of a fixed number, without locks; nothing is allocated. Finding where the
// return addresses lie takes a slow walk (20 to 50 us in a training program): each is paid for by stacks that were
// found.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stalloc::runtime {

class KnownStacks {
 public:
  // The most frames that are remembered of a stack: what STALLOC_STACK_DEPTH has by default, and this library's own.
  static constexpr int kMaxFrames = 40;

  struct Where {
    std::uintptr_t end = 0;  // of the stack: the frame that asks
    std::uint64_t hint = 0;  // whatever often goes with one stack, say the size that is asked for: see Find
    int depth = 0;           // see CallSiteHash
  };

  // nullptr where too many threads have one.
  static KnownStacks* OfThisThread() noexcept;

  // The call site, or 0. Fastest where the same hint came with this stack the last time.
  std::uint64_t Find(const Where& where) noexcept;

  // Takes the price of a slow walk. False: there were too many of late.
  bool PayForWalk() noexcept;

  // `slots` are the addresses at which the return addresses lie, innermost first; all above where.end. At most
  // kMaxFrames.
  void Remember(const Where& where, const std::uintptr_t* slots, int count, std::uint64_t call_site) noexcept;

 private:
  struct Entry {
    std::uint64_t call_site = 0;
    int depth = 0;
    int count = 0;
    std::uint32_t offsets[kMaxFrames] = {};  // from the end
    std::uintptr_t addresses[kMaxFrames] = {};
  };
  // Where a stack is not the one that was remembered, and what is there instead.
  struct Difference {
    std::uint32_t offset = 0;
    int frame = -1;  // none
    std::uintptr_t address = 0;
  };
  static constexpr std::size_t kSets = 32;
  static constexpr std::size_t kWays = 32;
  static constexpr std::size_t kEntries = kSets * kWays;
  static constexpr std::size_t kGuesses = 4096;
  static constexpr std::int64_t kWalkCost = 64;  // stacks found for which one may be walked slowly: about as long
  static constexpr std::int64_t kMostDebt = kEntries * kWalkCost;

  static std::size_t SetOf(std::uintptr_t end) noexcept;
  static std::size_t GuessOf(const Where& where) noexcept;
  static Difference FirstDifference(const Entry& entry, std::uintptr_t end) noexcept;
  std::uint64_t Found(const Entry& entry) noexcept;

  std::uintptr_t ends_[kEntries] = {};  // of the entries, a set's side by side
  std::uint16_t guesses_[kGuesses] = {};
  std::uint8_t oldest_[kSets] = {};
  std::int64_t debt_ = 0;  // of slow walks, in found stacks; from zero, so that the table is zero-initialised
  Entry entries_[kEntries];
};

}  // namespace stalloc::runtime
