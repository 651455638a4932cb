#include "runtime/memory_search.h"

#include <algorithm>

namespace stalloc::runtime {

namespace {

constexpr PageNumber PagesOf(Granule granules) { return (granules + kPageGranules - 1) / kPageGranules; }

// Pages of `fragments` (address order, adjacent) that do not exist and that [begin, end) touches.
struct Piece {
  Run run;
  bool absent;
};
PageNumber NewPages(const std::vector<Piece>& pieces, Run window) {
  PageNumber pages = 0;
  for (const Piece& piece : pieces) {
    if (!piece.absent) continue;
    const Granule begin = std::max(piece.run.begin, window.begin);
    const Granule end = std::min(piece.run.end, window.end);
    if (begin < end) pages += PagesOf(end) - begin / kPageGranules;
  }
  return pages;
}

}  // namespace

bool MemorySearch::RunUsable(Run run, StreamIndex stream, Waits waits) const {
  Granule reached = run.begin;
  bool usable = true;
  space_.VisitOverlapping(run, [&](Run piece, Fence fence) {
    usable = usable && piece.begin == reached && Usable(stream, fence, waits);
    reached = piece.end;
  });
  return usable && reached == run.end;
}

Found MemorySearch::Contiguous(Granule granules, StreamIndex stream, Waits waits) const {
  std::optional<Run> best = space_.BestFit(granules, kNoStream);
  if (stream != kNoStream) {
    const std::optional<Run> own = space_.BestFit(granules, stream);
    if (own && (!best || own->length() < best->length())) best = own;
  }
  // Rooms of several streams side by side, or of a stream that this one is ordered behind.
  if (!best && (streams_.count() > 1 || waits == Waits::kYes))
    best = space_.BestRun(granules, [&](Fence fence) { return Usable(stream, fence, waits); });
  if (!best) return {};
  return {.kind = Found::Kind::kRun, .run = {best->begin, best->begin + granules}};
}

Found MemorySearch::KeptView(Granule granules, StreamIndex stream, Waits waits) const {
  const PageNumber count = PagesOf(granules);
  const ViewIndex view = views_.Find(count, [&](ViewTable::View& candidate) {
    auto page_usable = [&](std::uint32_t k) {
      return RunUsable(GranulesInPage(candidate.pages[k], k, granules), stream, waits);
    };
    if (candidate.witness < count && !page_usable(candidate.witness)) return false;
    for (std::uint32_t k = 0; k < count; ++k) {
      if (!page_usable(k)) {
        candidate.witness = k;
        return false;
      }
    }
    return true;
  });
  if (view == kNoView) return {};
  return {.kind = Found::Kind::kView, .view = view};
}

Found MemorySearch::Stitch(Granule granules, StreamIndex stream, Waits waits, PageNumber max_new_pages) const {
  const PageNumber count = PagesOf(granules);
  struct Room {
    PageNumber first, count;
  };
  std::vector<Room> rooms;
  std::vector<Room> absent;
  PageNumber free_pages = 0;
  Run run{};
  auto close = [&] {
    const PageNumber first = PagesOf(run.begin);
    const PageNumber last = run.end / kPageGranules;
    if (first < last) {
      rooms.push_back({first, last - first});
      free_pages += last - first;
    }
  };
  space_.VisitAll([&](Run fragment, Fence fence) {
    if (fence.stream == kAbsent) {
      absent.push_back({fragment.begin / kPageGranules, fragment.length() / kPageGranules});
      return;
    }
    if (!Usable(stream, fence, waits)) return;
    if (fragment.begin == run.end) {
      run.end = fragment.end;
      return;
    }
    close();
    run = fragment;
  });
  close();

  Found found{.kind = Found::Kind::kPages};
  if (free_pages < count) {
    found.new_pages = count - free_pages;
    if (found.new_pages > max_new_pages) return {};
  }
  // The smallest rooms first, so that the large ones stay whole for requests that need no mapping.
  std::sort(rooms.begin(), rooms.end(),
            [](const Room& a, const Room& b) { return a.count != b.count ? a.count < b.count : a.first < b.first; });
  found.pages.reserve(count);
  auto take = [&](const Room& room) {
    for (PageNumber p = room.first; p < room.first + room.count && found.pages.size() < count; ++p)
      found.pages.push_back(p);
  };
  for (const Room& room : rooms) take(room);
  for (const Room& room : absent) take(room);
  if (found.pages.size() < count) return {};
  std::sort(found.pages.begin(), found.pages.end());
  return found;
}

Found MemorySearch::Grow(Granule granules, StreamIndex stream, Granule from) const {
  Found best;
  std::vector<Piece> pieces;
  auto consider = [&](Run window) {
    const PageNumber pages = NewPages(pieces, window);
    if (!best || pages < best.new_pages) {
      best.kind = Found::Kind::kRun;
      best.run = window;
      best.new_pages = pages;
    }
  };
  auto close = [&] {
    if (!pieces.empty()) {
      const Run run{std::max(from, pieces.front().run.begin), pieces.back().run.end};
      if (run.begin < run.end && run.length() >= granules) {
        consider({run.begin, run.begin + granules});
        consider({run.end - granules, run.end});
      }
    }
    pieces.clear();
  };
  space_.VisitAll([&](Run fragment, Fence fence) {
    const bool absent = fence.stream == kAbsent;
    const bool usable = absent || streams_.Behind(stream, fence);
    if (!pieces.empty() && (!usable || fragment.begin != pieces.back().run.end)) close();
    if (usable) pieces.push_back({fragment, absent});
  });
  close();
  return best;
}

}  // namespace stalloc::runtime
