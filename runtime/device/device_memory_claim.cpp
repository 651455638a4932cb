// The part of DeviceMemory that takes and gives memory, all of it under the lock: a claim is made of what the search or
// the plan proposes, undone where the driver refuses, and released when its block ends.
#include <algorithm>

#include "runtime/device/device_memory.h"

namespace stalloc::runtime {

namespace {

// Requests up to this many pages may be stitched so that they begin or end on pages that are free in part. Chosen on
// replays: with 16 much of what can be saved is, with 128 nothing more is and a tenth more is mapped.
constexpr Granule kMostPagesForParts = 48;

// A program counts as young until so many times its peak has been handed out, which leaves time for a plan to come; and
// again when its peak rises. Chosen on replays among 4, 6, 12 and 25; if it stayed young, three times as much would be
// mapped where sizes vary (tests/bench/RESULTS.md).
constexpr std::uint64_t kYoungTurnovers = 12;

}  // namespace

template <typename Visit>
void DeviceMemory::ForEachRun(const Found& where, Granule granules, Visit visit) const {
  if (where.kind == Found::Kind::kRun) {
    visit(where.run);
    return;
  }
  const bool kept = where.kind == Found::Kind::kView;
  const std::vector<PageNumber>& pages = kept ? (*views_)[where.view].pages : where.pages;
  const Granule head = kept ? (*views_)[where.view].head : where.head;
  const std::size_t count = PagesUnder(head, granules);
  for (std::size_t k = 0; k < count;) {
    Run run = GranulesInPage(pages[k], k, head, granules);
    while (++k < count && pages[k] == pages[k - 1] + 1) run.end = GranulesInPage(pages[k], k, head, granules).end;
    visit(run);
  }
}

// Perhaps a neighbour that is part of the fragment was freed after the run was.
bool DeviceMemory::IsBehindExactly(StreamIndex stream, Run run) const noexcept {
  bool behind = true;
  space_->VisitExact(run, [&](Run, Fence exact) { behind = behind && streams_.Behind(stream, exact); });
  return behind;
}

// What taking a run means whose every granule is free: pages that do not exist yet are noted to be taken whole and
// mapped, parts in another stream's order to be waited for. Takes nothing yet.
void DeviceMemory::NoteRun(Run run, StreamIndex stream, Claim* claim) const {
  const std::optional<Fence> whole = space_->FenceOver(run);
  if (whole && whole->stream != kAbsent && (!multi_stream_ || streams_.Behind(stream, *whole))) return;
  space_->VisitExact(run, [&](Run piece, Fence fence) {
    if (fence.stream == kAbsent) {
      const PageNumber first = piece.begin / kPageGranules;
      const PageNumber last = (piece.end + kPageGranules - 1) / kPageGranules;
      claim->new_pages.push_back({first, last - first});
      if (first * kPageGranules < piece.begin) claim->left_over.push_back({first * kPageGranules, piece.begin});
      if (piece.end < last * kPageGranules) claim->left_over.push_back({piece.end, last * kPageGranules});
    } else if (multi_stream_ && !streams_.Behind(stream, fence)) {
      claim->waits.emplace_back(piece, fence);
    }
  });
}

void DeviceMemory::Take(Found found, Granule granules, StreamIndex stream, Claim* claim) {
  // Noting may fail for want of host memory; taking cannot.
  ForEachRun(found, granules, [&](Run run) { NoteRun(run, stream, claim); });
  claim->where = std::move(found);
  claim->granules = granules;
  ForEachRun(claim->where, granules, [&](Run run) { space_->Claim(run); });
  for (const Run& part : claim->left_over) space_->Claim(part);
  for (const auto& pages : claim->new_pages) counters_.reserved_bytes += std::uint64_t{pages.count} * kPageBytes;
  claim->needs_driver = !claim->new_pages.empty() || !claim->waits.empty();
  // From here on, not only when the block is there: a claim that has to wait must not lose its view to a trim.
  if (claim->where.kind == Found::Kind::kView) ++(*views_)[claim->where.view].live_blocks;
  if (claim->where.kind == Found::Kind::kPages) claim->needs_driver = true;
  if (claim->where.kind == Found::Kind::kExchange) {
    claim->needs_driver = true;
    (*views_)[claim->where.view].changing = true;
    views_->NoteChange();
  }
}

// Gives back what a claim took but could not use.
void DeviceMemory::UndoClaim(const Claim& claim, const Who& who) {
  if (claim.where.kind == Found::Kind::kExchange) (*views_)[claim.where.view].changing = false;
  if (claim.where.kind == Found::Kind::kView) --(*views_)[claim.where.view].live_blocks;
  // What had nothing to wait for is in this stream's order now, of which account may be kept only since it was taken.
  const Fence here = who.stream == kNoStream ? Fence{} : MemoryFence(streams_.Advance(who.stream));
  for (const auto& [run, fence] : claim.waits) space_->Release(run, fence);
  for (std::size_t i = 0; i < claim.new_pages.size(); ++i) {
    const auto& pages = claim.new_pages[i];
    const bool exists = i < claim.mapped_runs;
    space_->Release({pages.first * kPageGranules, (pages.first + pages.count) * kPageGranules},
                    exists ? Fence{} : Fence{kAbsent, 0});
    if (!exists) counters_.reserved_bytes -= std::uint64_t{pages.count} * kPageBytes;
  }
  // The rest of each run: from one of those parts to the next.
  ForEachRun(claim.where, claim.granules, [&](Run run) {
    for (Granule at = run.begin; at < run.end;) {
      Run next{run.end, run.end};
      const auto look = [&](Run released) {
        if (released.end > at && released.begin < next.begin) next = {std::max(released.begin, at), released.end};
      };
      for (const auto& wait : claim.waits) look(wait.first);
      for (const auto& pages : claim.new_pages)
        look({pages.first * kPageGranules, (pages.first + pages.count) * kPageGranules});
      if (at < next.begin) space_->Release({at, next.begin}, here);
      at = next.end;
    }
  });
}

bool DeviceMemory::WithinLimit(PageNumber new_pages) const noexcept {
  return counters_.reserved_bytes + std::uint64_t{new_pages} * kPageBytes <= policy_.limit_bytes;
}

// A planned place is taken only if all of it is free now, and needs no waiting or may be waited for; the plan is
// advice.
DeviceMemory::Refusal DeviceMemory::TakePlace(BlockPlace& place, Granule granules, StreamIndex stream,
                                              MemorySearch::Waits waits, Claim* claim) {
  Found found;
  if (place.kind == BlockPlace::Kind::kRun) {
    found.kind = Found::Kind::kRun;
    found.run = {place.begin, place.begin + granules};
    if (found.run.end > pages_.page_limit() * kPageGranules) return Refusal::kInUse;
  } else if (place.kind == BlockPlace::Kind::kPages) {
    const PageNumber count = PagesUnder(place.begin, granules);
    if (count > place.pages.size()) return Refusal::kInUse;
    if (place.view == kNoView) {  // its pages did not exist when the plan came; they were mapped since then, or will be
      place.view = views_->FindExact(place.pages, place.begin);
      if (place.view != kNoView) (*views_)[place.view].pinned = true;
    }
    if (place.view != kNoView) {
      found.kind = Found::Kind::kView;
      found.view = place.view;
    } else {
      found.kind = Found::Kind::kPages;
      found.pages.assign(place.pages.begin(), place.pages.begin() + count);
      found.head = place.begin;
    }
  } else {
    return Refusal::kInUse;
  }
  bool free = true;
  bool in_order = true;
  PageNumber new_pages = 0;
  ForEachRun(found, granules, [&](Run run) {
    const std::optional<Fence> whole = space_->FenceOver(run);
    if (whole && whole->stream != kAbsent && (!multi_stream_ || search_->Usable(stream, *whole, waits))) return;
    Granule reached = run.begin;
    space_->VisitExact(run, [&](Run piece, Fence fence) {
      free = free && piece.begin == reached;
      reached = piece.end;
      if (fence.stream == kAbsent) {
        new_pages += (piece.end + kPageGranules - 1) / kPageGranules - piece.begin / kPageGranules;
      } else if (multi_stream_) {
        in_order = in_order && search_->Usable(stream, fence, waits);
      }
    });
    free = free && reached == run.end;
  });
  if (!free) return Refusal::kInUse;
  if (!in_order) return Refusal::kOrder;
  if (new_pages != 0) {
    const std::uint64_t used = counters_.used_bytes + std::uint64_t{granules} * kGranuleBytes;
    const std::uint64_t budget =
        std::min(std::max({plans_->budget_bytes(), used, counters_.peak_live_bytes}) + kPageBytes, policy_.limit_bytes);
    if (counters_.reserved_bytes + std::uint64_t{new_pages} * kPageBytes > budget) return Refusal::kBudget;
  }
  Take(std::move(found), granules, stream, claim);
  return Refusal::kNone;
}

DeviceMemory::Refusal DeviceMemory::TakeProposed(const Asked& asked, Claim* claim) {
  const PlanFollower::Proposal& proposal = asked.proposal;
  if (proposal.place == nullptr) return Refusal::kNone;
  const auto waits = proposal.may_wait ? MemorySearch::Waits::kYes : MemorySearch::Waits::kNo;
  return TakePlace(*proposal.place, asked.granules, asked.who.effective, waits, claim);
}

// Where a request that has no slot is in the way of none.
bool DeviceMemory::TakeRoom(const Asked& asked, Claim* claim) {
  const auto take = [&](Run room, MemorySearch::Waits waits) {
    Run run{};
    space_->VisitOverlapping(room, [&](Run piece, Fence fence) {
      if (run.length() >= asked.granules || !search_->Usable(asked.who.effective, fence, waits)) return;
      run = {run.end == piece.begin ? run.begin : piece.begin, piece.end};
    });
    if (run.length() < asked.granules) return false;
    run.end = run.begin + asked.granules;
    Take({.kind = Found::Kind::kRun, .run = run}, asked.granules, asked.who.effective, claim);
    return true;
  };
  for (const Run room : asked.proposal.rooms)
    if (take(room, MemorySearch::Waits::kNo)) return true;
  if (!asked.proposal.may_wait) return false;
  for (const Run room : asked.proposal.rooms)
    if (take(room, MemorySearch::Waits::kYes)) return true;
  return false;
}

// Where a request whose slot is taken keeps no other from its slot.
bool DeviceMemory::TakeQuietRoom(const Asked& asked, Claim* claim) {
  const PlanFollower::Proposal& proposal = asked.proposal;
  if (proposal.plan == nullptr) return false;
  const std::optional<Run> run = quiet_room_.Find(
      *space_, *proposal.plan, proposal.request, asked.granules,
      [&](Run, Fence fence) { return search_->Usable(asked.who.effective, fence, MemorySearch::Waits::kNo); });
  if (!run) return false;
  Take({.kind = Found::Kind::kRun, .run = *run}, asked.granules, asked.who.effective, claim);
  return true;
}

// The highest room that exists: for a block that will stay, but not in its place. Slots are packed from below, so that
// few lie there, and those only when most is live.
bool DeviceMemory::TakeHighest(const Asked& asked, Claim* claim) {
  Run highest{};
  space_->VisitRuns(
      [&](Run, Fence fence) { return search_->Usable(asked.who.effective, fence, MemorySearch::Waits::kNo); },
      [&](Run run) {
        if (run.length() >= asked.granules) highest = run;
      });
  if (highest.length() == 0) return false;
  highest.begin = highest.end - asked.granules;
  Take({.kind = Found::Kind::kRun, .run = highest}, asked.granules, asked.who.effective, claim);
  return true;
}

// Where blocks are sorted by whether they last, at the very end of their room that keeps them together: the part of a
// page that aligning would leave between two of them costs more than it spares (tests/bench/RESULTS.md). What several
// streams have left side by side is not sorted: nullopt then, and the request goes where any other goes.
std::optional<Run> DeviceMemory::FindSorted(const Asked& asked) const {
  const Granule granules = asked.granules;
  const StreamIndex stream = asked.who.effective;
  const Granule from = plans_->online_from();
  if (asked.guess->room == LifetimeRooms::Room::kLowest) {
    const std::optional<Run> lowest = search_->LowestRoom(granules, stream, from, lifetime_rooms_.high_ends());
    if (!lowest) return std::nullopt;
    return Run{lowest->begin, lowest->begin + granules};
  }
  const std::optional<Run> high = search_->HighRoom(granules, stream, from);
  if (!high) return std::nullopt;
  return Run{high->end - granules, high->end};
}

// The pool may grow to this multiple of the peak of live bytes before a request is stitched or waited for.
double DeviceMemory::Growth() const noexcept { return std::max(budget_.growth(), lifetime_rooms_.growth()); }

// In the first iterations of a program, in which it makes what it will keep and holds most above its live bytes.
bool DeviceMemory::Young() const noexcept {
  return counters_.allocated_bytes() < kYoungTurnovers * counters_.peak_live_bytes;
}

// Where in its room a block lies that has no other reason. While the program is young the part of a page that a block
// on a page's boundary would leave before it stays at the front of the room, where the next block that is no whole
// pages begins: shut in, it would be of use to the smallest only. So even where the room ends inside a page too, and a
// part of that is shut in instead: going to the end only where that is smaller holds more (tests/bench/RESULTS.md).
Run DeviceMemory::PlaceIn(Run room, Granule granules) const noexcept {
  const Run front = MemorySearch::FrontOf(room, granules);
  return front.begin != room.begin && Young() ? MemorySearch::EndOf(room, granules) : front;
}

// Where best fit last laid a large block of this size. Not in a program's first iterations: what it makes to stay moves
// its rooms.
std::optional<Run> DeviceMemory::FindLast(const Asked& asked) const {
  if (Young()) return std::nullopt;
  const std::optional<Run> last = large_rooms_.Last(asked.granules);
  if (!last || last->begin < plans_->online_from()) return std::nullopt;
  return search_->UsableAtEndOfRoom(*last, asked.who.effective) ? last : std::nullopt;
}

// Contiguous memory that exists and needs nothing from the driver.
std::optional<Run> DeviceMemory::FindExisting(const Asked& asked) {
  // Sorting may have ended since it was guessed, for the lock is released in between.
  const bool sorted = asked.guess != nullptr && asked.guess->room != LifetimeRooms::Room::kAny;
  if (sorted && lifetime_rooms_.sorting()) [[unlikely]]
    if (const std::optional<Run> run = FindSorted(asked)) return run;
  const Granule granules = asked.granules;
  const auto find = [&](Granule from) {
    return search_->ContiguousRoom(granules, asked.who.effective, MemorySearch::Waits::kNo, from);
  };
  const Granule from = plans_->online_from();
  const bool large = granules > kPageGranules &&
                     std::uint64_t{granules} * kGranuleBytes * LargeRooms::kPart >= counters_.reserved_bytes;
  if (large)
    if (const std::optional<Run> last = FindLast(asked)) return last;
  std::optional<Run> room = find(from);
  // While the program still makes what it will keep, the room below belongs to that.
  if (!room && from != 0 && !plans_->settling()) room = find(0);
  if (!room) return std::nullopt;
  const Run usual = PlaceIn(*room, granules);
  return large ? large_rooms_.Place(*room, usual) : MemorySearch::KeepingPagesWhole(*room, usual);
}

// The same, or a kept view.
bool DeviceMemory::TakeExisting(const Asked& asked, Claim* claim) {
  Found found;
  if (const std::optional<Run> run = FindExisting(asked)) {
    found = {.kind = Found::Kind::kRun, .run = *run};
  } else if (asked.granules > kPageGranules) {
    found = search_->KeptView(asked.granules, asked.who.effective, MemorySearch::Waits::kNo);
  }
  if (!found) return false;
  Take(std::move(found), asked.granules, asked.who.effective, claim);
  return true;
}

// Everything else, cheapest first. `frugal`: memory is short, so holding less comes before mapping less.
bool DeviceMemory::TakeBest(const Asked& asked, bool frugal, Claim* claim) {
  using Waits = MemorySearch::Waits;
  const Granule granules = asked.granules;
  const StreamIndex stream = asked.who.effective;
  const bool large = granules > kPageGranules;
  auto take = [&](Found found) {
    if (!found) return false;
    Take(std::move(found), granules, stream, claim);
    return true;
  };
  const auto take_contiguous = [&](Waits waits) {
    const std::optional<Run> room = search_->ContiguousRoom(granules, stream, waits);
    return room && take({.kind = Found::Kind::kRun, .run = PlaceIn(*room, granules)});
  };
  if (TakeExisting(asked, claim)) return true;

  const Granule from = plans_->online_from();
  Found grown = search_->Grow(granules, stream, from);
  const std::uint64_t live =
      std::max(counters_.used_bytes + std::uint64_t{granules} * kGranuleBytes, counters_.peak_live_bytes);
  const std::uint64_t reserved = counters_.reserved_bytes + std::uint64_t{grown.new_pages} * kPageBytes;
  const bool cheap = grown && static_cast<double>(reserved) <= static_cast<double>(live) * Growth() + kPageBytes;
  // A small block must not settle where the program's next weights will lie: a page of its own costs less than that.
  const bool apart = !large && from != 0 && plans_->settling();
  if (grown && (cheap || apart) && !frugal && WithinLimit(grown.new_pages)) return take(std::move(grown));

  if (take_contiguous(Waits::kNo)) return true;
  if (large && take(search_->Exchange(granules, stream, Waits::kNo, 0, from))) return true;
  if (large && take(search_->Stitch(granules, stream, Waits::kNo, 0, from))) return true;
  // Other streams' memory, behind a wait: only now, when the alternative is to hold more.
  if (MayWait()) {
    if (take_contiguous(Waits::kYes)) return true;
    if (large && take(search_->KeptView(granules, stream, Waits::kYes))) return true;
    if (large && take(search_->Stitch(granules, stream, Waits::kYes, 0, from))) return true;
  }
  // More must be held. As few pages as can be: out of what is free, then out of other streams' memory, behind a wait.
  if (large && grown.new_pages > 0) {
    PageNumber below = grown ? grown.new_pages - 1 : ~PageNumber{0};
    Found stitched = search_->Stitch(granules, stream, Waits::kNo, below, from);
    if (stitched) {
      // As many pages in a view that has most of them already is a mapping for each of the others only.
      if (Found changed = search_->Exchange(granules, stream, Waits::kNo, stitched.new_pages, from))
        stitched = std::move(changed);
      below = stitched.new_pages - 1;
    }
    // A page less for what may be hundreds of mappings is worth it only where they are few; and where a single page is
    // all that is missing, that page is room for what comes next.
    const bool settling = plans_->settling();
    if (!settling && below != 0 && granules <= kMostPagesForParts * kPageGranules) {
      if (Found parts = search_->StitchParts(granules, stream, Waits::kNo, below, from)) {
        if (parts.new_pages == 0) return take(std::move(parts));
        below = parts.new_pages - 1;
        stitched = std::move(parts);
      }
    }
    if (MayWait())
      if (Found waiting = search_->Stitch(granules, stream, Waits::kYes, below, from)) stitched = std::move(waiting);
    if (stitched && WithinLimit(stitched.new_pages)) return take(std::move(stitched));
  }
  return WithinLimit(grown.new_pages) && take(std::move(grown));
}

// Memory whose last use is known to have executed becomes everybody's.
void DeviceMemory::Sweep() {
  for (StreamIndex s = 1; s <= streams_.count(); ++s) space_->Pass(s, streams_.Passed(s));
}

void DeviceMemory::ReleaseView(const Block& block, Fence freed) noexcept {
  ViewTable::View& view = (*views_)[block.view];
  --view.live_blocks;
  view.last_free = freed;
  ForEachRun({.kind = Found::Kind::kView, .view = block.view}, block.granules,
             [&](Run run) { space_->Release(run, MemoryFence(freed)); });
}

}  // namespace stalloc::runtime
