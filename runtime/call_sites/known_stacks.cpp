#include "call_sites/known_stacks.h"

#include <atomic>

namespace stalloc::runtime {

namespace {

// Threads that ask for memory: the program's own, one for the backward pass of each device, some that load data.
constexpr int kThreads = 16;
// How far from its end a stack is looked at.
constexpr std::uintptr_t kReach = std::uintptr_t{1} << 20;

// 8 MiB, all zero at first: no part of the library's file, and untouched pages take no memory.
constinit KnownStacks tables[kThreads] = {};
constinit std::atomic<int> tables_taken{0};
constinit thread_local KnownStacks* table_of_thread __attribute__((tls_model("initial-exec"))) = nullptr;
constinit thread_local bool has_asked __attribute__((tls_model("initial-exec"))) = false;

}  // namespace

KnownStacks* KnownStacks::OfThisThread() noexcept {
  if (!has_asked) [[unlikely]] {
    has_asked = true;
    if (tables_taken.load(std::memory_order_relaxed) < kThreads)
      if (const int mine = tables_taken.fetch_add(1, std::memory_order_relaxed); mine < kThreads)
        table_of_thread = &tables[mine];
  }
  return table_of_thread;
}

std::size_t KnownStacks::SetOf(std::uintptr_t end) noexcept { return (end * 0x9E3779B97F4A7C15ull >> 32) % kSets; }

std::size_t KnownStacks::GuessOf(const Where& where) noexcept {
  const std::uint64_t mixed = (where.end ^ where.hint * 0xBF58476D1CE4E5B9ull) * 0x9E3779B97F4A7C15ull;
  return (mixed >> 32) % kGuesses;
}

// A sanitizer would take the frames of others for none of this function's business.
__attribute__((no_sanitize("address", "thread"))) KnownStacks::Difference KnownStacks::FirstDifference(
    const Entry& entry, std::uintptr_t end) noexcept {
  for (int i = 0; i < entry.count; ++i) {
    const std::uintptr_t address = *reinterpret_cast<const std::uintptr_t*>(end + entry.offsets[i]);
    if (address != entry.addresses[i]) return {entry.offsets[i], i, address};
  }
  return {};
}

std::uint64_t KnownStacks::Found(const Entry& entry) noexcept {
  if (debt_ > 0) --debt_;
  return entry.call_site;
}

std::uint64_t KnownStacks::Find(const Where& where) noexcept {
  std::uint16_t& guess = guesses_[GuessOf(where)];
  Difference last;
  if (const Entry& entry = entries_[guess]; ends_[guess] == where.end && entry.depth == where.depth) {
    last = FirstDifference(entry, where.end);
    if (last.frame < 0) return Found(entry);
  }
  const std::size_t set = SetOf(where.end) * kWays;
  for (std::size_t i = set; i < set + kWays; ++i) {
    if (ends_[i] != where.end) continue;
    const Entry& entry = entries_[i];
    if (entry.depth != where.depth) continue;
    // The same word as was read last, and not what this one has there.
    if (last.frame >= 0 && last.frame < entry.count && entry.offsets[last.frame] == last.offset &&
        entry.addresses[last.frame] != last.address)
      continue;
    last = FirstDifference(entry, where.end);
    if (last.frame < 0) {
      guess = static_cast<std::uint16_t>(i);
      return Found(entry);
    }
  }
  return 0;
}

bool KnownStacks::PayForWalk() noexcept {
  if (debt_ + kWalkCost > kMostDebt) return false;
  debt_ += kWalkCost;
  return true;
}

__attribute__((no_sanitize("address", "thread"))) void KnownStacks::Remember(const Where& where,
                                                                             const std::uintptr_t* slots, int count,
                                                                             std::uint64_t call_site) noexcept {
  const std::size_t set = SetOf(where.end);
  const std::size_t at = set * kWays + oldest_[set];
  Entry& entry = entries_[at];
  ends_[at] = 0;
  for (int i = 0; i < count; ++i) {
    const std::uintptr_t offset = slots[i] - where.end;
    if (offset >= kReach || (i > 0 && slots[i] <= slots[i - 1])) return;  // not one stack
    entry.offsets[i] = static_cast<std::uint32_t>(offset);
    entry.addresses[i] = *reinterpret_cast<const std::uintptr_t*>(slots[i]);
  }
  entry.call_site = call_site;
  entry.depth = where.depth;
  entry.count = count;
  ends_[at] = where.end;
  guesses_[GuessOf(where)] = static_cast<std::uint16_t>(at);
  oldest_[set] = static_cast<std::uint8_t>((oldest_[set] + 1) % kWays);
}

}  // namespace stalloc::runtime
