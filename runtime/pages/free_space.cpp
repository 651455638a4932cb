#include "runtime/pages/free_space.h"

#include <algorithm>
#include <bit>

namespace stalloc::runtime {

FreeSpace::FreeSpace(Granule granules)
    : granules_(granules),
      ends_(granules + 1),
      by_end_(std::size_t{1} << 14),
      // Fragments need at least one granule each and a live neighbour between them; the array is address space only.
      fragments_(std::min<std::size_t>(granules / 2 + 2, std::size_t{1} << 26)),
      sizes_(kMaxStreams) {
  Insert({0, granules}, Fence{kAbsent, 0});
}

FreeSpace::~FreeSpace() = default;

// Below 2^(kSubBits + 1) granules the shift is 0, and the class the number of granules itself.
std::uint16_t FreeSpace::ClassOf(Granule granules) noexcept {
  const int shift = std::bit_width(granules | 1u << kSubBits) - (kSubBits + 1);
  return static_cast<std::uint16_t>((static_cast<unsigned>(shift) << kSubBits) + (granules >> shift));
}

// The first class from `size_class` on that holds something; kClasses: there is none.
inline int FreeSpace::FilledClass(const SizeIndex& sizes, int size_class) noexcept {
  while (size_class < kClasses) {
    const std::uint64_t word = sizes.bitmap[size_class >> 6] & (~std::uint64_t{0} << (size_class & 63));
    if (word != 0) return (size_class & ~63) | std::countr_zero(word);
    size_class = ((size_class >> 6) + 1) << 6;
  }
  return kClasses;
}

// The count of fragments is the caller's to keep: one that only changes its class is counted already.
inline void FreeSpace::Link(Index index, Fragment& f, SizeIndex& sizes, std::uint16_t size_class) noexcept {
  const int c = size_class;
  f.size_class = size_class;
  f.previous = kNull;
  f.next = sizes.head[c];
  if (f.next != kNull) fragments_[f.next].previous = index;
  sizes.head[c] = index;
  sizes.bitmap[c >> 6] |= std::uint64_t{1} << (c & 63);
}

inline void FreeSpace::Unlink(const Fragment& f, SizeIndex& sizes) noexcept {
  const int c = f.size_class;
  if (f.next != kNull) fragments_[f.next].previous = f.previous;
  if (f.previous != kNull) {
    fragments_[f.previous].next = f.next;
  } else {
    sizes.head[c] = f.next;
    if (f.next == kNull) sizes.bitmap[c >> 6] &= ~(std::uint64_t{1} << (c & 63));
  }
}

// Behind all fragments of its stream with no later position: nearly always at the end, for frees come in order.
void FreeSpace::Enqueue(Index index) noexcept {
  Fragment& f = fragments_[index];
  if (!InOrder(f.stream)) return;
  SizeIndex& sizes = sizes_[f.stream];
  Index before = sizes.newest;
  while (before != kNull && fragments_[before].position > f.position) before = fragments_[before].older;
  f.older = before;
  f.newer = before == kNull ? sizes.oldest : fragments_[before].newer;
  (f.older == kNull ? sizes.oldest : fragments_[f.older].newer) = index;
  (f.newer == kNull ? sizes.newest : fragments_[f.newer].older) = index;
}

void FreeSpace::Dequeue(Index index) noexcept {
  const Fragment& f = fragments_[index];
  if (!InOrder(f.stream)) return;
  SizeIndex& sizes = sizes_[f.stream];
  (f.older == kNull ? sizes.oldest : fragments_[f.older].newer) = f.newer;
  (f.newer == kNull ? sizes.newest : fragments_[f.newer].older) = f.older;
}

void FreeSpace::AddFragment(Run run, Fence fence) noexcept {
  Index index = unused_head_;
  if (index != kNull) {
    unused_head_ = fragments_[index].next;
  } else {
    index = unused_fresh_++;
  }
  Fragment& f = fragments_[index];
  f.begin = run.begin;
  f.end = run.end;
  f.position = fence.position;
  f.stream = fence.stream;
  ends_.Insert(run.end);
  by_end_.Insert(run.end, index);
  SizeIndex& sizes = sizes_[fence.stream];
  Link(index, f, sizes, ClassOf(run.length()));
  ++sizes.count;
  Enqueue(index);
}

void FreeSpace::RemoveFragment(Index index) noexcept {
  Fragment& f = fragments_[index];
  SizeIndex& sizes = sizes_[f.stream];
  Unlink(f, sizes);
  --sizes.count;
  Dequeue(index);
  ends_.Erase(f.end);
  by_end_.Erase(f.end);
  f.next = unused_head_;
  unused_head_ = index;
}

// The same fragment with other bounds and another fence: cheaper than to remove it and add another.
void FreeSpace::Change(Index index, Run run, Fence fence) noexcept {
  Fragment& f = fragments_[index];
  const std::uint16_t size_class = ClassOf(run.length());
  const bool same_stream = f.stream == fence.stream;
  const bool same_fence = same_stream && f.position == fence.position;
  const bool same_list = same_stream && f.size_class == size_class;
  if (!same_list) Unlink(f, sizes_[f.stream]);
  if (!same_fence) Dequeue(index);
  if (!same_stream) --sizes_[f.stream].count, ++sizes_[fence.stream].count;
  if (f.end != run.end) {
    ends_.Erase(f.end);
    by_end_.Erase(f.end);
    ends_.Insert(run.end);
    by_end_.Insert(run.end, index);
  }
  f.begin = run.begin;
  f.end = run.end;
  f.position = fence.position;
  f.stream = fence.stream;
  if (!same_list) Link(index, f, sizes_[fence.stream], size_class);
  if (!same_fence) Enqueue(index);
}

// The usual change: memory is taken from the front of a fragment and comes back there.
inline void FreeSpace::ChangeBegin(Index index, Granule begin) noexcept {
  Fragment& f = fragments_[index];
  f.begin = begin;
  const std::uint16_t size_class = ClassOf(f.end - begin);
  if (size_class == f.size_class) return;
  SizeIndex& sizes = sizes_[f.stream];
  Unlink(f, sizes);
  Link(index, f, sizes, size_class);
}

// Takes `run`, which lies within the fragment, out of it.
void FreeSpace::Cut(Index index, Run run) noexcept {
  const Fragment& f = fragments_[index];
  const Run whole = f.run();
  if (run.begin == whole.begin) {
    if (run.end == whole.end) return RemoveFragment(index);
    return ChangeBegin(index, run.end);
  }
  const Fence fence = f.fence();
  if (run.end != whole.end) {
    ChangeBegin(index, run.end);
    AddFragment({whole.begin, run.begin}, fence);
  } else {
    Change(index, {whole.begin, run.begin}, fence);
  }
}

// A clean neighbour joins a fenced run only where it is no larger than the run: contiguity is worth a little waiting,
// but a small pending free must not hold up a large clean room.
bool FreeSpace::MayMerge(const Fragment& neighbour, Run run, Fence fence) const noexcept {
  if (neighbour.stream == fence.stream) return true;
  if (neighbour.stream == kAbsent || fence.stream == kAbsent) return false;
  const Granule size = neighbour.end - neighbour.begin;
  if (neighbour.stream == kNoStream) return size <= run.length();
  return fence.stream == kNoStream && run.length() <= size;
}

// What both demand.
Fence FreeSpace::Joined(Fence a, Fence b) noexcept {
  return {a.stream == kNoStream ? b.stream : a.stream, std::max(a.position, b.position)};
}

void FreeSpace::Release(Run run, Fence fence) noexcept {
  // As long as nothing was freed in a stream's order there is nothing to be told apart.
  if (last_frees_ && (remembers_ || InOrder(fence.stream))) {
    remembers_ = true;
    last_frees_->Note(run, fence);
  }
  Insert(run, fence);
}

void FreeSpace::RememberFrees() {
  if (!last_frees_) last_frees_ = std::make_unique<LastFrees>(granules_);
}

// Joins the run with the fragments beside it that it may be one with.
void FreeSpace::Insert(Run run, Fence fence) noexcept {
  Index before = kNull;
  if (ends_.Contains(run.begin)) {
    const Index found = IndexAt(run.begin);
    const Fragment& f = fragments_[found];
    if (MayMerge(f, run, fence)) {
      before = found;
      run.begin = f.begin;
      fence = Joined(fence, f.fence());
    }
  }
  if (const Granule end = ends_.AtOrAfter(run.end + 1); end != AddressBits::kNone) {
    const Index after = IndexAt(end);
    const Fragment& f = fragments_[after];
    if (f.begin == run.end && MayMerge(f, run, fence)) {
      if (before != kNull) RemoveFragment(before);
      fence = Joined(fence, f.fence());
      if (fence == f.fence()) return ChangeBegin(after, run.begin);
      return Change(after, {run.begin, end}, fence);
    }
  }
  if (before != kNull) return Change(before, run, fence);
  AddFragment(run, fence);
}

void FreeSpace::Claim(Run run) noexcept {
  for (Granule at = ends_.AtOrAfter(run.begin + 1); at != AddressBits::kNone;) {
    const Index index = IndexAt(at);
    const Run whole = fragments_[index].run();
    Cut(index, {std::max(run.begin, whole.begin), std::min(run.end, whole.end)});
    if (whole.end >= run.end) return;
    at = ends_.AtOrAfter(whole.end + 1);
  }
}

bool FreeSpace::AllFree(Run run) const noexcept {
  Granule reached = run.begin;
  VisitOverlapping(run, [&](Run piece, Fence) {
    if (piece.begin == reached) reached = piece.end;
  });
  return reached == run.end;
}

template <typename Visit>
inline void FreeSpace::VisitInClass(const SizeIndex& sizes, int size_class, Granule granules, Granule from,
                                    std::uint64_t position, Visit visit) const noexcept {
  for (Index i = sizes.head[size_class]; i != kNull; i = fragments_[i].next) {
    const Fragment& f = fragments_[i];
    if (f.end < granules || f.end - granules < from || f.position > position) continue;
    const Run run{std::max(f.begin, from), f.end};
    // In the request's own class some are too small, and so may be what is left of one behind `from`.
    if (run.length() >= granules) visit(run);
  }
}

template <typename Visit>
inline void FreeSpace::VisitFitting(Granule granules, StreamIndex stream, Granule from, std::uint64_t position,
                                    Visit visit) const noexcept {
  const SizeIndex& sizes = sizes_[stream];
  if (sizes.count == 0) return;
  for (int c = FilledClass(sizes, ClassOf(granules)); c != kClasses; c = FilledClass(sizes, c + 1))
    VisitInClass(sizes, c, granules, from, position, visit);
}

std::optional<Run> FreeSpace::BestFit(Granule granules, StreamIndex stream, Granule from,
                                      std::uint64_t position) const noexcept {
  const SizeIndex& sizes = sizes_[stream];
  if (sizes.count == 0) return std::nullopt;
  for (int c = FilledClass(sizes, ClassOf(granules)); c != kClasses; c = FilledClass(sizes, c + 1)) {
    Run best{};
    VisitInClass(sizes, c, granules, from, position, [&best](Run run) {
      const bool shorter = run.length() < best.length() || (run.length() == best.length() && run.begin < best.begin);
      if (best.end == 0 || shorter) best = run;
    });
    if (best.end != 0) return best;
  }
  return std::nullopt;
}

template <typename Rooms>
void FreeSpace::AddTo(Rooms* rooms, Granule granules, StreamIndex stream, Granule from,
                      std::uint64_t position) const noexcept {
  VisitFitting(granules, stream, from, position, [rooms](Run run) { rooms->Add(run); });
}
template void FreeSpace::AddTo(Lowest*, Granule, StreamIndex, Granule, std::uint64_t) const noexcept;
template void FreeSpace::AddTo(HighestButLargest*, Granule, StreamIndex, Granule, std::uint64_t) const noexcept;

void FreeSpace::Pass(StreamIndex stream, std::uint64_t position) noexcept {
  if (stream == kNoStream || stream == kAbsent) return;
  for (Index index = sizes_[stream].oldest; index != kNull && fragments_[index].position <= position;
       index = sizes_[stream].oldest) {
    const Run run = fragments_[index].run();
    RemoveFragment(index);
    Insert(run, Fence{});
  }
}

void FreeSpace::RefenceAll(StreamIndex from, Fence fence) noexcept {
  if (last_frees_) last_frees_->Forget();
  for (Granule at = ends_.AtOrAfter(0); at != AddressBits::kNone;) {
    const Index index = IndexAt(at);
    const Fragment f = fragments_[index];
    if (f.stream == from) {
      RemoveFragment(index);
      Insert({f.begin, f.end}, fence);
    }
    at = ends_.AtOrAfter(f.end + 1);
  }
}

}  // namespace stalloc::runtime
