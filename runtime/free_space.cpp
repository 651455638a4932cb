#include "runtime/free_space.h"

#include <algorithm>
#include <bit>

namespace stalloc::runtime {

FreeSpace::FreeSpace(Granule granules)
    : granules_(granules),
      starts_(granules),
      by_start_(std::size_t{1} << 14),
      // Fragments need at least one granule each and a live neighbour between them; the array is address space only.
      fragments_(std::min<std::size_t>(granules / 2 + 2, std::size_t{1} << 26)),
      sizes_(kMaxStreams) {
  Release({0, granules}, Fence{kAbsent, 0});
}

FreeSpace::~FreeSpace() = default;

int FreeSpace::ClassOf(Granule granules) noexcept {
  if (granules < (1u << kSubBits)) return static_cast<int>(granules);
  const int top = 31 - std::countl_zero(granules);
  const auto sub = (granules >> (top - kSubBits)) & ((1u << kSubBits) - 1);
  return ((top - kSubBits + 1) << kSubBits) | static_cast<int>(sub);
}

void FreeSpace::Link(Index index) noexcept {
  Fragment& f = fragments_[index];
  SizeIndex& sizes = sizes_[f.fence.stream];
  const int c = ClassOf(f.end - f.begin);
  f.previous = kNull;
  f.next = sizes.head[c];
  if (f.next != kNull) fragments_[f.next].previous = index;
  sizes.head[c] = index;
  sizes.bitmap[c >> 6] |= std::uint64_t{1} << (c & 63);
  ++sizes.count;
}

void FreeSpace::Unlink(Index index) noexcept {
  Fragment& f = fragments_[index];
  SizeIndex& sizes = sizes_[f.fence.stream];
  const int c = ClassOf(f.end - f.begin);
  if (f.next != kNull) fragments_[f.next].previous = f.previous;
  if (f.previous != kNull) {
    fragments_[f.previous].next = f.next;
  } else {
    sizes.head[c] = f.next;
    if (f.next == kNull) sizes.bitmap[c >> 6] &= ~(std::uint64_t{1} << (c & 63));
  }
  --sizes.count;
}

void FreeSpace::AddFragment(Run run, Fence fence) noexcept {
  Index index = unused_head_;
  if (index != kNull) {
    unused_head_ = fragments_[index].next;
  } else {
    index = unused_fresh_++;
  }
  fragments_[index] = {run.begin, run.end, kNull, kNull, fence};
  starts_.Insert(run.begin);
  by_start_.Insert(Key(run.begin), index);
  Link(index);
}

void FreeSpace::RemoveFragment(Index index) noexcept {
  Fragment& f = fragments_[index];
  Unlink(index);
  starts_.Erase(f.begin);
  by_start_.Erase(Key(f.begin));
  f.next = unused_head_;
  unused_head_ = index;
}

// A clean neighbour joins a fenced run only where it is no larger than the run: contiguity is worth a little waiting,
// but a small pending free must not hold up a large clean room.
bool FreeSpace::MayMerge(const Fragment& neighbour, Run run, Fence fence) const noexcept {
  if (neighbour.fence.stream == fence.stream) return true;
  if (neighbour.fence.stream == kAbsent || fence.stream == kAbsent) return false;
  const Granule size = neighbour.end - neighbour.begin;
  if (neighbour.fence.stream == kNoStream) return size <= run.length();
  return fence.stream == kNoStream && run.length() <= size;
}

void FreeSpace::Release(Run run, Fence fence) noexcept {
  if (run.begin > 0) {
    const Granule before = starts_.AtOrBefore(run.begin - 1);
    if (before != AddressBits::kNone) {
      const Index index = *by_start_.Find(Key(before));
      const Fragment f = fragments_[index];
      if (f.end == run.begin && MayMerge(f, run, fence)) {
        RemoveFragment(index);
        run.begin = f.begin;
        if (fence.stream == kNoStream) fence.stream = f.fence.stream;
        fence.position = std::max(fence.position, f.fence.position);
      }
    }
  }
  if (const Index* after = by_start_.Find(Key(run.end))) {
    const Index index = *after;
    const Fragment f = fragments_[index];
    if (MayMerge(f, run, fence)) {
      RemoveFragment(index);
      run.end = f.end;
      if (fence.stream == kNoStream) fence.stream = f.fence.stream;
      fence.position = std::max(fence.position, f.fence.position);
    }
  }
  AddFragment(run, fence);
}

void FreeSpace::Claim(Run run) noexcept {
  Granule at = starts_.AtOrBefore(run.begin);
  while (at < run.end) {
    const Index index = *by_start_.Find(Key(at));
    const Fragment f = fragments_[index];
    RemoveFragment(index);
    if (f.begin < run.begin) AddFragment({f.begin, run.begin}, f.fence);
    if (f.end > run.end) AddFragment({run.end, f.end}, f.fence);
    at = f.end;
  }
}

bool FreeSpace::AllFree(Run run) const noexcept {
  Granule at = starts_.AtOrBefore(run.begin);
  if (at == AddressBits::kNone) return false;
  for (;;) {
    const Index* index = by_start_.Find(Key(at));
    if (index == nullptr) return false;
    const Granule end = fragments_[*index].end;
    if (end >= run.end) return true;
    if (end <= run.begin) return false;
    at = end;
  }
}

std::optional<Run> FreeSpace::BestFit(Granule granules, StreamIndex stream, Granule from) const noexcept {
  const SizeIndex& sizes = sizes_[stream];
  int c = ClassOf(granules);
  while (c < kClasses) {
    const std::uint64_t word = sizes.bitmap[c >> 6] & (~std::uint64_t{0} << (c & 63));
    if (word == 0) {
      c = ((c >> 6) + 1) << 6;
      continue;
    }
    c = (c & ~63) | std::countr_zero(word);
    Run best{};
    for (Index i = sizes.head[c]; i != kNull; i = fragments_[i].next) {
      const Fragment& f = fragments_[i];
      if (f.end < granules || f.end - granules < from) continue;
      const Run run{std::max(f.begin, from), f.end};
      // In the request's own class some are too small, and so may be what is left of one behind `from`.
      if (run.length() < granules) continue;
      if (best.end == 0 || run.length() < best.length() || (run.length() == best.length() && run.begin < best.begin))
        best = run;
    }
    if (best.end != 0) return best;
    ++c;
  }
  return std::nullopt;
}

void FreeSpace::Pass(StreamIndex stream, std::uint64_t position) noexcept {
  if (stream == kNoStream || stream == kAbsent || sizes_[stream].count == 0) return;
  for (Granule at = starts_.AtOrAfter(0); at != AddressBits::kNone;) {
    const Index index = *by_start_.Find(Key(at));
    const Fragment f = fragments_[index];
    if (f.fence.stream == stream && f.fence.position <= position) {
      RemoveFragment(index);
      Release({f.begin, f.end}, Fence{});
    }
    at = starts_.AtOrAfter(f.end);
  }
}

void FreeSpace::RefenceAll(StreamIndex from, Fence fence) noexcept {
  for (Granule at = starts_.AtOrAfter(0); at != AddressBits::kNone;) {
    const Index index = *by_start_.Find(Key(at));
    const Fragment f = fragments_[index];
    if (f.fence.stream == from) {
      RemoveFragment(index);
      Release({f.begin, f.end}, fence);
    }
    at = starts_.AtOrAfter(f.end);
  }
}

}  // namespace stalloc::runtime
