// History: what a framework's tool for looking at memory wants to see: each request with its call stack, and where the
// live blocks lie. Off until somebody asks for it, and until then one load a request.
//
// Any thread. One lock, never held over a driver call. Allocates while it is on; where the host has no memory for an
// event, it is left out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/base/memory_figures.h"

namespace stalloc::runtime {

enum class HistoryStacks : std::uint8_t { kNone, kLive, kAllocations, kAll };  // each with those before it

struct HistoryOptions {
  bool events = true;  // false: the stacks of live blocks alone
  HistoryStacks stacks = HistoryStacks::kAll;
  std::size_t most_events = 0;  // of each device; the oldest go first
};

class History {
 public:
  static bool On() noexcept { return on_.load(std::memory_order_relaxed); }

  // What was recorded before stays.
  static void Start(const HistoryOptions& options) noexcept;
  static void Stop() noexcept;
  static void Clear() noexcept;

  static void Allocated(int device, std::uint64_t address, std::uint64_t size_bytes, std::uint64_t stream) noexcept;
  static void Freed(int device, std::uint64_t address, std::uint64_t size_bytes, std::uint64_t stream) noexcept;
  static void OutOfMemory(int device, std::uint64_t size_bytes, std::uint64_t free_bytes) noexcept;

  // As JSON: {"frames": [[file, line, name], ...], "stacks": [[index of a frame, innermost first, ...], ...],
  // "segments": [[address, bytes, [[address, used bytes, requested bytes, stream, stack, time in us], ...]], ...],
  // "events": [[action, address, bytes, stream, stack, time in us], ...]}. Stack 0 is empty; actions are 0 for a
  // request, 1 for a free and 2 for out of memory, whose address is what was free then. Throws std::bad_alloc.
  static std::string Text(int device, const MemoryLayout& layout, bool with_events);

 private:
  static constinit std::atomic<bool> on_;
};

}  // namespace stalloc::runtime
