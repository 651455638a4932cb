#include "runtime/pages/last_frees.h"

namespace stalloc::runtime {

namespace {
constexpr Fence kUnknown{kAbsent, 0};
}  // namespace

// FlatMap does not grow up to the count that it is made for, and Note keeps to it.
LastFrees::LastFrees(Granule granules, std::size_t most_runs)
    : granules_(granules), most_runs_(most_runs), begins_(granules), fences_(most_runs) {
  Begin(0, kUnknown);
}

void LastFrees::Begin(Granule begin, Fence fence) noexcept {
  begins_.Insert(begin);
  fences_.Insert(Key(begin), fence);
}

void LastFrees::Note(Run run, Fence fence) noexcept {
  if (runs() + 2 > most_runs_) Forget();
  // What goes on behind the run keeps the fence that it has.
  if (run.end != granules_ && !begins_.Contains(run.end))
    Begin(run.end, *fences_.Find(Key(begins_.AtOrBefore(run.end))));
  for (Granule at = begins_.AtOrAfter(run.begin + 1); at < run.end; at = begins_.AtOrAfter(run.begin + 1)) {
    begins_.Erase(at);
    fences_.Erase(Key(at));
  }
  Begin(run.begin, fence);
}

void LastFrees::Forget() noexcept {
  for (Granule at = begins_.AtOrAfter(1); at != AddressBits::kNone; at = begins_.AtOrAfter(1)) {
    begins_.Erase(at);
    fences_.Erase(Key(at));
  }
  Begin(0, kUnknown);
}

}  // namespace stalloc::runtime
