#include "runtime/device/memory_search.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace stalloc::runtime {

namespace {

constexpr PageNumber PagesOf(Granule granules) { return (granules + kPageGranules - 1) / kPageGranules; }

// Pages all of which lie in `run`.
constexpr PageNumber WholePages(Run run) {
  const PageNumber first = PagesOf(run.begin), end = run.end / kPageGranules;
  return first < end ? end - first : 0;
}

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

// Blocks of whole pages, from this many on, begin on a page where there is room for it: what they leave behind are
// whole pages then, whoever lives beside them. Chosen on replays; smaller blocks are better packed side by side.
constexpr Granule kAlignFromPages = 9;

// Smaller blocks lie where best fit has them, side by side: few of them reach into another page. Chosen on replays.
constexpr Granule kLeastForWhole = kPageGranules / 4;

// A view whose pages come back is changed rather than doubled only if changing it this often maps no more than another
// one, and only until the turns have cost as much.
constexpr std::size_t kFewTurns = 8;

// What exchanging `pages` costs, in pages of a new view: each is unmapped too, and the driver's first calls after a
// pause take longer. On an H200 200 us and 65 a page, of a new view 32 a page (tests/gpu/RESULTS.md).
constexpr std::size_t CostOfExchange(std::size_t pages) { return 6 + 2 * pages; }

// So much of a view may be exchanged: with more, a view of the request's own, which is kept, soon pays for itself. A
// shorter one is lengthened by little only, for it belongs to requests of another size. Chosen on replays.
constexpr std::size_t kExchangedPart = 4;
constexpr std::size_t kLengthenedPart = 8;

using Part = MemorySearch::PartPages::Part;

bool Shorter(const Part& a, const Part& b) { return a.granules < b.granules; }

// Where a block's first bytes lie at the end of a page, its last at the start of one, or both.
struct Parts {
  const Part* end = nullptr;
  const Part* start = nullptr;
  explicit operator bool() const { return end != nullptr || start != nullptr; }
};

// The smallest part of at least `wanted` granules. `ends` and `starts` are sorted by length.
Parts OneOf(const std::vector<Part>& ends, const std::vector<Part>& starts, Granule wanted) {
  const auto least = [&](const std::vector<Part>& of) {
    const auto found = std::lower_bound(of.begin(), of.end(), Part{0, wanted}, Shorter);
    return found == of.end() ? nullptr : &*found;
  };
  Parts one{least(ends), least(starts)};
  if (one.end != nullptr && one.start != nullptr) (Shorter(*one.end, *one.start) ? one.start : one.end) = nullptr;
  return one;
}

// The two of which both together hold at least `wanted` granules, and as little more as can be.
Parts TwoOf(const std::vector<Part>& ends, const std::vector<Part>& starts, Granule wanted) {
  Parts two;
  Granule least = ~Granule{0};
  std::size_t k = starts.size();
  for (const Part& end : ends) {
    while (k > 0 && starts[k - 1].granules + end.granules >= wanted) --k;
    if (k == starts.size() || starts[k].granules + end.granules >= least) continue;
    least = starts[k].granules + end.granules;
    two = {&end, &starts[k]};
  }
  return two;
}

}  // namespace

bool MemorySearch::RunUsable(Run run, StreamIndex stream, Waits waits) const {
  if (const std::optional<Fence> fence = space_.FenceOver(run)) return Usable(stream, *fence, waits);
  Granule reached = run.begin;
  bool usable = true;
  space_.VisitOverlapping(run, [&](Run piece, Fence fence) {
    usable = usable && piece.begin == reached && Usable(stream, fence, waits);
    reached = piece.end;
  });
  return usable && reached == run.end;
}

bool MemorySearch::UsableAtEndOfRoom(Run run, StreamIndex stream) const {
  const auto usable = [&](Run part) { return RunUsable(part, stream, Waits::kNo); };
  if (!usable({run.begin, run.begin + 1}) || !usable(run)) return false;  // a granule is one look-up, a run may be many
  return run.begin == 0 || run.end == space_.size() || !usable({run.begin - 1, run.begin}) ||
         !usable({run.end, run.end + 1});
}

Run MemorySearch::FrontOf(Run room, Granule granules) {
  Granule begin = room.begin;
  if (granules % kPageGranules == 0 && granules >= kAlignFromPages * kPageGranules) {
    const Granule aligned = PagesOf(room.begin) * kPageGranules;
    if (aligned + granules <= room.end) begin = aligned;
  }
  return {begin, begin + granules};
}

Run MemorySearch::EndOf(Run room, Granule granules) {
  Granule begin = room.end - granules;
  if (granules % kPageGranules == 0 && granules >= kAlignFromPages * kPageGranules) {
    const Granule aligned = begin / kPageGranules * kPageGranules;
    if (aligned >= room.begin) begin = aligned;
  }
  return {begin, begin + granules};
}

Run MemorySearch::KeepingPagesWhole(Run room, Run usual) {
  const Granule granules = usual.length();
  if (granules < kLeastForWhole || granules == room.length()) return usual;
  const auto left = [&](Run place) {
    return WholePages({room.begin, place.begin}) + WholePages({place.end, room.end});
  };
  Run best = usual;
  PageNumber most = left(usual);
  for (const Run place : {Run{room.begin, room.begin + granules}, Run{room.end - granules, room.end}}) {
    const PageNumber pages = left(place);
    if (pages > most) best = place, most = pages;
  }
  return best;
}

template <typename Visit>
inline void MemorySearch::VisitOrders(StreamIndex stream, Waits waits, Visit visit) const {
  visit(kNoStream, FreeSpace::kAnyPosition);
  if (stream != kNoStream) visit(stream, FreeSpace::kAnyPosition);
  // Another stream's room, as far as this one is ordered behind it.
  for (StreamIndex other = 1; other <= streams_.count(); ++other)
    if (other != stream && space_.Any(other))
      visit(other, waits == Waits::kYes ? FreeSpace::kAnyPosition : streams_.BehindUpTo(stream, other));
}

std::optional<Run> MemorySearch::ContiguousRoom(Granule granules, StreamIndex stream, Waits waits, Granule from) const {
  std::optional<Run> best;
  VisitOrders(stream, waits, [&](StreamIndex of, std::uint64_t position) {
    const std::optional<Run> found = space_.BestFit(granules, of, from, position);
    if (found && (!best || found->length() < best->length())) best = found;
  });
  // Rooms of several streams side by side.
  if (!best && from == 0 && streams_.count() > 1)
    best = space_.BestRun(granules, [&](Fence fence) { return Usable(stream, fence, waits); });
  return best;
}

template <typename Rooms>
std::optional<Run> MemorySearch::RoomOf(Rooms rooms, Granule granules, StreamIndex stream, Granule from) const {
  VisitOrders(stream, Waits::kNo,
              [&](StreamIndex of, std::uint64_t position) { space_.AddTo(&rooms, granules, of, from, position); });
  return rooms.room();
}

std::optional<Run> MemorySearch::LowestRoom(Granule granules, StreamIndex stream, Granule from,
                                            const FlatMap<bool>& put_off) const {
  return RoomOf(FreeSpace::Lowest(put_off), granules, stream, from);
}

std::optional<Run> MemorySearch::HighRoom(Granule granules, StreamIndex stream, Granule from) const {
  return RoomOf(FreeSpace::HighestButLargest(), granules, stream, from);
}

Found MemorySearch::KeptView(Granule granules, StreamIndex stream, Waits waits) const {
  const ViewIndex view = views_.Find(PagesOf(granules), [&](ViewTable::View& candidate) {
    const PageNumber count = PagesUnder(candidate.head, granules);
    if (count > candidate.pages.size()) return false;
    auto page_usable = [&](std::uint32_t k) {
      return RunUsable(GranulesInPage(candidate.pages[k], k, candidate.head, granules), stream, waits);
    };
    if (candidate.witness < count && !page_usable(candidate.witness)) return false;
    for (std::uint32_t k = 0; k < count;) {
      // Pages side by side are one look-up.
      std::uint32_t first = k;
      Run run = GranulesInPage(candidate.pages[k], k, candidate.head, granules);
      while (++k < count && candidate.pages[k] == candidate.pages[k - 1] + 1)
        run.end = GranulesInPage(candidate.pages[k], k, candidate.head, granules).end;
      if (RunUsable(run, stream, waits)) continue;
      while (first + 1 < k && page_usable(first)) ++first;
      candidate.witness = first;
      return false;
    }
    return true;
  });
  if (view == kNoView) return {};
  return {.kind = Found::Kind::kView, .view = view};
}

std::vector<PageNumber> MemorySearch::FreePages(StreamIndex stream, Waits waits, PageNumber at_most,
                                                AbsentPages* absent, PartPages* parts) const {
  struct Room {
    PageNumber first, count;
  };
  std::vector<Room> rooms;
  const auto usable = [&](Run fragment, Fence fence) {
    if (fence.stream != kAbsent) return Usable(stream, fence, waits);
    for (Granule at = std::max(fragment.begin, PagesOf(absent->from) * kPageGranules);
         at < fragment.end && absent->pages.size() < absent->at_most; at += kPageGranules)
      absent->pages.push_back(at / kPageGranules);
    return false;
  };
  space_.VisitRuns(usable, [&](Run run) {
    const PageNumber first = PagesOf(run.begin);
    const PageNumber last = run.end / kPageGranules;
    if (first < last) rooms.push_back({first, last - first});
    if (parts == nullptr || first > last || run.begin < absent->from) return;  // first > last: inside one page
    if (run.begin % kPageGranules != 0) parts->ends.push_back({first - 1, first * kPageGranules - run.begin});
    if (run.end % kPageGranules != 0) parts->starts.push_back({last, run.end - last * kPageGranules});
  });
  std::sort(rooms.begin(), rooms.end(),
            [](const Room& a, const Room& b) { return a.count != b.count ? a.count > b.count : a.first < b.first; });
  std::vector<PageNumber> pages;
  for (const Room& room : rooms)
    for (PageNumber p = room.first; p < room.first + room.count && pages.size() < at_most; ++p) pages.push_back(p);
  return pages;
}

Found MemorySearch::Stitch(Granule granules, StreamIndex stream, Waits waits, PageNumber max_new_pages,
                           Granule from) const {
  const PageNumber count = PagesOf(granules);
  AbsentPages absent{.from = from, .at_most = std::min(count, max_new_pages)};
  Found found;
  found.pages = FreePages(stream, waits, count, &absent);
  found.new_pages = count - static_cast<PageNumber>(found.pages.size());
  if (found.new_pages > absent.pages.size()) return {};
  found.pages.insert(found.pages.end(), absent.pages.begin(), absent.pages.begin() + found.new_pages);
  std::sort(found.pages.begin(), found.pages.end());
  found.kind = Found::Kind::kPages;
  return found;
}

Found MemorySearch::StitchParts(Granule granules, StreamIndex stream, Waits waits, PageNumber max_new_pages,
                                Granule from) const {
  AbsentPages absent{.from = from, .at_most = std::min(PagesOf(granules), max_new_pages)};
  PartPages parts;
  std::vector<PageNumber> pages = FreePages(stream, waits, PagesOf(granules), &absent, &parts);
  std::sort(parts.ends.begin(), parts.ends.end(), Shorter);
  std::sort(parts.starts.begin(), parts.starts.end(), Shorter);

  const Granule rest = granules % kPageGranules;
  Parts chosen;
  if (rest != 0) chosen = OneOf(parts.ends, parts.starts, rest);
  PageNumber whole = granules / kPageGranules + (rest != 0 && !chosen ? 1 : 0);
  if (pages.size() < whole) {
    if (const Parts two = TwoOf(parts.ends, parts.starts, rest + kPageGranules)) {
      chosen = two;
      whole = granules / kPageGranules - 1;
    }
  }
  if (!chosen) return {};

  pages.resize(std::min<std::size_t>(pages.size(), whole));
  Found found;
  found.new_pages = whole - static_cast<PageNumber>(pages.size());
  if (found.new_pages > absent.pages.size()) return {};
  pages.insert(pages.end(), absent.pages.begin(), absent.pages.begin() + found.new_pages);
  std::sort(pages.begin(), pages.end());
  found.kind = Found::Kind::kPages;
  if (chosen.end != nullptr) {
    found.pages.push_back(chosen.end->page);
    found.head = kPageGranules - (chosen.start == nullptr ? rest : chosen.end->granules);
  }
  found.pages.insert(found.pages.end(), pages.begin(), pages.end());
  if (chosen.start != nullptr) found.pages.push_back(chosen.start->page);
  return found;
}

Found MemorySearch::Exchange(Granule granules, StreamIndex stream, Waits waits, PageNumber max_new_pages,
                             Granule from) {
  const PageNumber count = PagesOf(granules);
  ViewIndex best = kNoView;
  std::size_t turns_cost = 0;
  std::vector<std::uint32_t> busy;
  std::vector<std::uint32_t> fewest;
  views_.VisitSizes(count, count / kLengthenedPart, [&](ViewIndex index, const ViewTable::View& view) {
    if (view.changing || view.pinned || view.live_blocks != 0 || !streams_.Executed(view.last_free)) return;
    if (view.head != 0) return;  // its first page is of use to its own requests only
    const auto mapped = static_cast<std::uint32_t>(view.pages.size());
    std::size_t limit = count / (mapped < count ? kLengthenedPart : kExchangedPart);
    if (best != kNoView) limit = std::min(limit, std::max<std::size_t>(1, fewest.size()) - 1);
    busy.clear();
    for (std::uint32_t k = 0; k < count; ++k) {
      if (k < mapped && RunUsable(GranulesInPage(view.pages[k], k, 0, granules), stream, waits)) continue;
      if (busy.size() == limit) return;
      busy.push_back(k);
    }
    // Two kinds of iteration, or two places of one, must not take turns in changing one view: where the pages that it
    // had before would do now, each gets a view of its own. Not at once for a few pages of many: those take long to
    // cost as much as a view.
    std::size_t returning = 0;
    for (const std::uint32_t k : busy) {
      const bool had_other = k < mapped && k < view.former.size() && view.former[k] != view.pages[k];
      returning += had_other && RunUsable(GranulesInPage(view.former[k], k, 0, granules), stream, waits) ? 1 : 0;
    }
    std::size_t cost = 0;
    if (returning * 2 >= busy.size()) {
      cost = view.turns_cost + CostOfExchange(busy.size());
      if (busy.size() * kFewTurns > count || cost > count) return;
    }
    best = index;
    turns_cost = cost;
    fewest = busy;
  });
  if (best == kNoView) return {};
  const ViewTable::View& view = views_[best];
  std::vector<PageNumber> mine(view.pages);
  std::sort(mine.begin(), mine.end());
  AbsentPages absent{.from = from, .at_most = std::min(static_cast<PageNumber>(fewest.size()), max_new_pages)};
  const std::vector<PageNumber> all_free = FreePages(stream, waits, space_.size() / kPageGranules, &absent);
  std::vector<PageNumber> free;
  std::copy_if(all_free.begin(), all_free.end(), std::back_inserter(free),
               [&](PageNumber page) { return !std::binary_search(mine.begin(), mine.end(), page); });
  Found found;
  found.kind = Found::Kind::kExchange;
  found.view = best;
  found.pages = view.pages;
  found.pages.resize(std::max<std::size_t>(count, view.pages.size()));
  if (free.size() < fewest.size()) {
    found.new_pages = static_cast<PageNumber>(fewest.size() - free.size());
    if (found.new_pages > absent.pages.size()) return {};
    free.insert(free.end(), absent.pages.begin(), absent.pages.begin() + found.new_pages);
  }
  free_history_.Note(all_free);
  // The few that are wanted: among pages that were free as often, those of the largest rooms.
  std::vector<std::pair<float, std::size_t>> order(free.size());
  for (std::size_t i = 0; i < free.size(); ++i) order[i] = {-free_history_.Share(free[i]), i};
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(fewest.size()), order.end());
  for (std::size_t i = 0; i < fewest.size(); ++i) found.pages[fewest[i]] = free[order[i].second];
  found.turns_cost = turns_cost;
  found.exchanged = std::move(fewest);
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
        // Against free memory at the run's end; never at the far end of what does not exist.
        if (!pieces.back().absent) consider({run.end - granules, run.end});
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
