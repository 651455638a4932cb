#include "runtime/call_sites/call_site.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "call_sites/known_stacks.h"
#include "call_sites/module_map.h"
#include "call_sites/unwinder.h"
#include "runtime/base/cancellation_off.h"
#include "runtime/base/log.h"

namespace stalloc::runtime {
namespace {

// Frames of this library that a walk may have to go through before it reaches the program's.
constexpr int kMaxOwnFrames = 10;

constinit std::atomic<WalkFunction> walk_stack{nullptr};
constinit std::atomic<WalkSlotsFunction> walk_slots{nullptr};
constinit std::atomic<Unwinder> unwinder{Unwinder::kNone};

// Hash of the raw addresses -> call site. Raw addresses are cheap to hash but hold for this process only; most stacks
// are seen again and again, so the module map is asked once for each. A slot is two words written without order:
// `check` is the key mixed with the value, so that a reader who gets one word of one entry and one of another sees no
// match.
class SeenStacks {
 public:
  std::uint64_t Find(std::uint64_t key) const noexcept {
    const Slot& slot = slots_[key % kSlots];
    const std::uint64_t call_site = slot.call_site.load(std::memory_order_relaxed);
    return (slot.check.load(std::memory_order_relaxed) ^ call_site) == key ? call_site : 0;
  }

  void Insert(std::uint64_t key, std::uint64_t call_site) noexcept {
    Slot& slot = slots_[key % kSlots];
    slot.check.store(key ^ call_site, std::memory_order_relaxed);
    slot.call_site.store(call_site, std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kSlots = 16384;  // a step of training has a few thousand call sites
  struct Slot {
    std::atomic<std::uint64_t> check;
    std::atomic<std::uint64_t> call_site;
  };
  Slot slots_[kSlots];
};

constinit SeenStacks seen_stacks{};

// Call site -> its innermost frames, to be named in a report. Filled when a new stack is seen, never emptied; where it
// is full, later call sites go without names. An entry is published by its count; the tag is taken first, so that two
// threads do not fill the same one.
class SiteFrames {
 public:
  void Insert(std::uint32_t tag, const std::uintptr_t* frames, int count) noexcept {
    for (std::size_t probe = 0; probe < kProbes; ++probe) {
      Entry& entry = entries_[(tag + probe) % kEntries];
      std::uint32_t taken = 0;
      if (!entry.tag.compare_exchange_strong(taken, tag, std::memory_order_relaxed)) {
        if (taken == tag) return;
        continue;
      }
      const int kept = std::min(count, kFrames);
      std::copy_n(frames, kept, entry.frames);
      entry.count.store(kept, std::memory_order_release);
      return;
    }
  }

  int Find(std::uint32_t tag, std::uintptr_t* frames, int room) const noexcept {
    for (std::size_t probe = 0; probe < kProbes; ++probe) {
      const Entry& entry = entries_[(tag + probe) % kEntries];
      const std::uint32_t held = entry.tag.load(std::memory_order_relaxed);
      if (held == 0) return 0;
      if (held != tag) continue;
      const int count = std::min(entry.count.load(std::memory_order_acquire), room);
      std::copy_n(entry.frames, count, frames);
      return count;
    }
    return 0;
  }

 private:
  static constexpr std::size_t kEntries = 8192;
  static constexpr std::size_t kProbes = 16;
  static constexpr int kFrames = 16;
  struct Entry {
    std::atomic<std::uint32_t> tag;
    std::atomic<int> count;
    std::uintptr_t frames[kFrames] = {};
  };
  Entry entries_[kEntries];
};

constinit SiteFrames site_frames{};

std::uint64_t HashOutside(void* const* addresses, int count, int depth) noexcept {
  struct Frame {
    std::uint64_t module;
    std::uint64_t offset;
  };
  Frame frames[kMaxStackDepth];
  std::uintptr_t outside[kMaxStackDepth];
  int used = 0;
  for (int i = 0; i < count && used < depth; ++i) {
    const CodeLocation location = Locate(reinterpret_cast<std::uintptr_t>(addresses[i]));
    // Only the innermost frames: where the library calls back into itself further out, that is the program's doing.
    if (location.own && used == 0) continue;
    outside[used] = reinterpret_cast<std::uintptr_t>(addresses[i]);
    frames[used++] = Frame{location.module, location.offset};
  }
  const std::uint64_t hash = XXH3_64bits(frames, static_cast<std::size_t>(used) * sizeof(Frame));
  const std::uint64_t call_site = hash != 0 ? hash : 1;  // 0 means unknown
  site_frames.Insert(SiteTag(call_site), outside, used);
  return call_site;
}

// Remembers where the return addresses lie that a walk has found: `above`, those of the frames above `where.end`. Walks
// once more for that.
[[gnu::noinline]] void RememberStack(KnownStacks& known, const KnownStacks::Where& where, void* const* above, int count,
                                     std::uint64_t call_site) noexcept {
  const WalkSlotsFunction walk = walk_slots.load(std::memory_order_relaxed);
  if (walk == nullptr || count > KnownStacks::kMaxFrames || !known.PayForWalk()) return;
  constexpr int kRoom = KnownStacks::kMaxFrames + 4;  // the walk's own frames come first
  void* addresses[kRoom];
  std::uintptr_t slots[kRoom];
  const int found = walk(addresses, slots, std::min(kRoom, count + 4));
  const auto* first = std::find(addresses, addresses + found, above[0]);
  // Both walks must have seen the same; one of them may name the calls and not the returns.
  if (addresses + found - first < count || !std::equal(above, above + count, first)) return;
  known.Remember(where, slots + (first - addresses), count, call_site);
}

}  // namespace

int FramesOfSite(std::uint32_t tag, std::uintptr_t* frames, int room) noexcept {
  return tag == 0 ? 0 : site_frames.Find(tag, frames, room);
}

Unwinder LoadUnwinder() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    LoadedUnwinder loaded = FindLibunwind();
    if (loaded.kind == Unwinder::kNone) loaded = FindLibgcc();
    unwinder.store(loaded.kind, std::memory_order_relaxed);
    if (loaded.kind == Unwinder::kLibgcc) {
      LogWarn("libunwind.so.8 was not found: call sites are taken by libgcc, which is slower");
    } else if (loaded.kind == Unwinder::kNone) {
      LogWarn("no library to walk the stack was found: requests are recognised by size and order alone");
      return;
    }
    // The first walk and the first snapshot allocate; here they may.
    void* addresses[kMaxOwnFrames];
    loaded.walk(addresses, kMaxOwnFrames);
    MainModule();
    walk_slots.store(loaded.walk_slots, std::memory_order_relaxed);
    walk_stack.store(loaded.walk, std::memory_order_release);
  });
  return unwinder.load(std::memory_order_relaxed);
}

// Not inlined, so that the walk's first address lies in this function and can be left out where it is part of the
// program.
[[gnu::noinline]] std::uint64_t CallSiteHash(int depth, std::uint64_t hint) noexcept {
  const WalkFunction walk = walk_stack.load(std::memory_order_acquire);
  if (walk == nullptr) return 0;
  depth = std::clamp(depth, 1, kMaxStackDepth);
  const KnownStacks::Where where{reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)), hint, depth};
  KnownStacks* const known = KnownStacks::OfThisThread();
  if (known != nullptr)
    if (const std::uint64_t call_site = known->Find(where); call_site != 0) return call_site;
  const CancellationOff no_cancellation;  // libunwind reads from a pipe to see which memory is there
  void* addresses[kMaxStackDepth + kMaxOwnFrames];
  const int count = walk(addresses, depth + kMaxOwnFrames) - 1;
  if (count <= 0) return 0;
  void* const* const above = addresses + 1;

  const std::uint64_t key =
      XXH3_64bits_withSeed(above, static_cast<std::size_t>(count) * sizeof(void*), static_cast<std::uint64_t>(depth));
  if (const std::uint64_t call_site = seen_stacks.Find(key); call_site != 0) {
    if (known != nullptr) RememberStack(*known, where, above, count, call_site);
    return call_site;
  }
  const std::uint64_t call_site = HashOutside(above, count, depth);
  seen_stacks.Insert(key, call_site);
  return call_site;
}

}  // namespace stalloc::runtime
