#include "known_stacks.h"

#include <atomic>

namespace stalloc::runtime {

namespace {

// Threads that ask for memory: the program's own, one for the backward pass of each device, some that load data.
constexpr int kThreads = 16;
// How far from its end a stack is looked at.
constexpr std::uintptr_t kReach = std::uintptr_t{1} << 20;

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

std::size_t KnownStacks::Home(const Where& where) noexcept {
  const std::uint64_t mixed = (where.end ^ where.hint * 0xBF58476D1CE4E5B9ull) * 0x9E3779B97F4A7C15ull;
  return (mixed >> 32) % kEntries;
}

// A sanitizer would take the frames of others for none of this function's business.
__attribute__((no_sanitize("address", "thread"))) bool KnownStacks::Same(const Entry& entry) noexcept {
  for (int i = 0; i < entry.count; ++i)
    if (*reinterpret_cast<const std::uintptr_t*>(entry.where.end + entry.offsets[i]) != entry.addresses[i])
      return false;
  return true;
}

std::uint64_t KnownStacks::Find(const Where& where) noexcept {
  const std::size_t home = Home(where);
  for (const std::size_t at : {home, home ^ 1}) {
    const Entry& entry = entries_[at];
    if (entry.where == where && Same(entry)) {
      if (credit_ < kMostCredit) ++credit_;
      return entry.call_site;
    }
  }
  return 0;
}

bool KnownStacks::PayForWalk() noexcept {
  if (credit_ < kWalkCost) return false;
  credit_ -= kWalkCost;
  return true;
}

__attribute__((no_sanitize("address", "thread"))) void KnownStacks::Remember(const Where& where,
                                                                             const std::uintptr_t* slots, int count,
                                                                             std::uint64_t call_site) noexcept {
  const std::size_t home = Home(where);
  // The older of two is moved aside.
  Entry& entry = entries_[home];
  if (entry.call_site != 0) entries_[home ^ 1] = entry;
  entry.call_site = 0;
  for (int i = 0; i < count; ++i) {
    const std::uintptr_t offset = slots[i] - where.end;
    if (offset >= kReach || (i > 0 && slots[i] <= slots[i - 1])) {  // not one stack
      entry.where = {};
      return;
    }
    entry.offsets[i] = static_cast<std::uint32_t>(offset);
    entry.addresses[i] = *reinterpret_cast<const std::uintptr_t*>(slots[i]);
  }
  entry.where = where;
  entry.count = count;
  entry.call_site = call_site;
}

}  // namespace stalloc::runtime
