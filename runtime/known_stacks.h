// KnownStacks: the call sites of stacks that a thread has walked before, found without another walk.
//
// A stack ends where one did that was walked before, and each return address is still where the walk had found it: then
// the calls are the same. They are compared from the innermost outwards, so each is read in a frame that is known to be
// there. (Only where a frame of changing size has left a stale address behind may a stack be taken for another: that
// costs a match with the plan, never correctness.)
//
// Each thread has a table of its own, out of a fixed number, without locks; nothing is allocated. Finding where the
// return addresses lie takes a slow walk: each is paid for by stacks that were found.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stalloc::runtime {

class KnownStacks {
 public:
  // The most frames that are remembered of a stack: what STALLOC_STACK_DEPTH has by default, and this library's own.
  static constexpr int kMaxFrames = 40;

  // What a stack is looked for by. `hint`, say the size that is asked for, tells apart stacks that end in the same
  // place.
  struct Where {
    std::uintptr_t end = 0;  // of the stack: the frame that asks
    std::uint64_t hint = 0;
    int depth = 0;  // see CallSiteHash
    friend bool operator==(const Where&, const Where&) = default;
  };

  // nullptr where too many threads have one.
  static KnownStacks* OfThisThread() noexcept;

  // The call site, or 0.
  std::uint64_t Find(const Where& where) noexcept;

  // Takes the price of a slow walk. False: there were too many of late.
  bool PayForWalk() noexcept;

  // `slots` are the addresses at which the return addresses lie, innermost first; all above where.end. At most
  // kMaxFrames.
  void Remember(const Where& where, const std::uintptr_t* slots, int count, std::uint64_t call_site) noexcept;

 private:
  struct Entry {
    Where where{};
    std::uint64_t call_site = 0;
    int count = 0;
    std::uint32_t offsets[kMaxFrames] = {};  // from where.end
    std::uintptr_t addresses[kMaxFrames] = {};
  };
  static constexpr std::size_t kEntries = 1024;
  static constexpr std::int64_t kWalkCost = 64;  // stacks found for which one may be walked slowly: about as long
  static constexpr std::int64_t kMostCredit = 2 * kEntries * kWalkCost;

  static std::size_t Home(const Where& where) noexcept;
  static bool Same(const Entry& entry) noexcept;

  Entry entries_[kEntries];
  std::int64_t credit_ = kMostCredit;
};

}  // namespace stalloc::runtime
