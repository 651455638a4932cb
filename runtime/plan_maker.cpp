#include "runtime/plan_maker.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "planner/lower_bound.h"
#include "planner/page_plan.h"
#include "planner/validate.h"
#include "runtime/plan_order.h"

namespace stalloc::runtime {

namespace {

using planner::Bytes;
using planner::FixedBlock;
using planner::Problem;
using planner::Time;

Bytes RoundUp(Bytes bytes) { return Bytes{GranulesOf(bytes)} * kGranuleBytes; }

Granule PageAfter(Granule at) { return (at + kPageGranules - 1) / kPageGranules * kPageGranules; }

bool Plannable(const PatternRequest& request) {
  return !request.size_varies && !request.persists && request.size_bytes != 0;
}

// The pattern's plannable requests as a planning problem on a circle; `members` says which ones they are.
Problem ProblemOf(const Pattern& pattern, std::vector<std::size_t>* members) {
  Problem problem;
  problem.period = pattern.period;
  problem.alignment_bytes = kGranuleBytes;
  for (std::size_t i = 0; i < pattern.requests.size(); ++i) {
    const PatternRequest& r = pattern.requests[i];
    // A block that lives longer than an iteration has company of its own kind: it has no one place.
    if (!Plannable(r) || r.end - r.begin > pattern.period) continue;
    problem.requests.push_back({RoundUp(r.size_bytes), r.begin, r.end, r.stream});
    members->push_back(i);
  }
  return problem;
}

void AppendRuns(const BlockPlace& place, Bytes size_bytes, std::vector<FixedBlock>* runs) {
  const Granule granules = GranulesOf(size_bytes);
  if (place.kind == BlockPlace::Kind::kRun) {
    runs->push_back({Bytes{place.begin} * kGranuleBytes, Bytes{granules} * kGranuleBytes});
    return;
  }
  for (std::size_t k = 0; k < place.pages.size(); ++k) {
    const Run run = GranulesInPage(place.pages[k], k, place.begin, granules);
    runs->push_back({Bytes{run.begin} * kGranuleBytes, Bytes{run.length()} * kGranuleBytes});
  }
}

// The places at which the example iteration's blocks were served online: a plan that is known to fit what is held.
BlockPlace ObservedPlace(const SeenBlocks::Block& block, const DeviceMemory& memory) {
  BlockPlace place;
  if (block.view == kNoView) {
    place.kind = BlockPlace::Kind::kRun;
    place.begin = block.begin;
    return place;
  }
  place.kind = BlockPlace::Kind::kPages;
  place.begin = block.begin;
  place.pages = memory.PagesOfView(block.view);
  place.pages.resize(PagesUnder(place.begin, GranulesOf(block.size_bytes)));  // a view may be longer than its block
  return place;
}

planner::Slot SlotOf(const BlockPlace& place) {
  planner::Slot slot;
  if (place.kind == BlockPlace::Kind::kRun) {
    slot.kind = planner::Slot::Kind::kRun;
    slot.offset_bytes = Bytes{place.begin} * kGranuleBytes;
  } else if (place.kind == BlockPlace::Kind::kPages) {
    slot.kind = planner::Slot::Kind::kPaged;
    slot.offset_bytes = Bytes{place.begin} * kGranuleBytes;
    slot.pages = place.pages;
  }
  return slot;
}

BlockPlace PlaceOf(const planner::Slot& slot) {
  BlockPlace place;
  if (slot.kind == planner::Slot::Kind::kRun) {
    place.kind = BlockPlace::Kind::kRun;
    place.begin = static_cast<Granule>(slot.offset_bytes / kGranuleBytes);
  } else if (slot.kind == planner::Slot::Kind::kPaged) {
    place.kind = BlockPlace::Kind::kPages;
    place.begin = static_cast<Granule>(slot.offset_bytes / kGranuleBytes);
    place.pages = slot.pages;
  }
  return place;
}

bool HasUnplanned(const Pattern& pattern) {
  return std::any_of(pattern.requests.begin(), pattern.requests.end(),
                     [](const PatternRequest& r) { return r.size_varies; });
}

planner::PlannedRequest PlannedOf(const PatternRequest& r) {
  planner::PlannedRequest planned;
  planned.call_site = r.call_site;
  planned.size_bytes = r.size_varies ? 0 : r.size_bytes;
  planned.occurrence = r.occurrence;
  planned.stream = r.stream;
  planned.begin = r.begin;
  planned.end = r.end;
  return planned;
}

// What was there before the iteration and still is, or was made in it to stay: it cannot move. By allocation number.
std::vector<DeviceMemory::LiveBlock> PersistentBlocks(const Pattern& pattern, const DeviceMemory& memory) {
  std::vector<std::uint64_t> persisting;
  for (const PatternRequest& r : pattern.requests)
    if (r.persists) persisting.push_back(r.example_block);
  std::sort(persisting.begin(), persisting.end());
  std::vector<DeviceMemory::LiveBlock> live = memory.LiveBlocks();
  std::erase_if(live, [&](const DeviceMemory::LiveBlock& block) {
    return block.info.number >= pattern.first_block &&
           !std::binary_search(persisting.begin(), persisting.end(), block.info.number);
  });
  std::sort(live.begin(), live.end(), [](const auto& a, const auto& b) { return a.info.number < b.info.number; });
  return live;
}

planner::SolveOptions SolveWithin(int deadline_ms) {
  planner::SolveOptions options;
  options.time_limit = std::chrono::milliseconds(deadline_ms);
  return options;
}

}  // namespace

// --- MakePlan
// ---------------------------------------------------------------------------------------------------------

MadePlan MakePlan(const PlanRequest& request) {
  const Pattern& pattern = request.pattern;
  MadePlan made;
  std::vector<std::size_t> members;
  Problem problem = ProblemOf(pattern, &members);
  const std::vector<SlotOrder> order = AddStreamOrder(pattern, members, request.seen, request.order, &problem);
  for (const auto& block : PersistentBlocks(pattern, request.memory))
    AppendRuns(block.place, block.info.size_bytes, &problem.fixed);

  // Pages that were given back are not asked for again: other pages are held in their place.
  Granule hole_pages = 0;
  for (const Run& hole : request.memory.Holes()) {
    problem.fixed.push_back({Bytes{hole.begin} * kGranuleBytes, Bytes{hole.length()} * kGranuleBytes});
    hole_pages += hole.length() / kPageGranules;
  }

  // As it was served: the incumbent, which needs no page and no mapping that is not there already.
  planner::PageProblem page_problem;
  page_problem.held_pages = request.memory.Counters().reserved_bytes / kPageBytes + hole_pages;
  bool all_observed = true;
  for (const std::size_t member : members) {
    const SeenBlocks::Block* block = request.seen.Find(pattern.requests[member].example_block);
    planner::Slot slot;
    if (block == nullptr) {
      all_observed = false;
    } else {
      slot = SlotOf(ObservedPlace(*block, request.memory));
    }
    page_problem.incumbent.push_back(std::move(slot));
  }
  page_problem.problem = std::move(problem);

  std::vector<planner::Slot> slots = page_problem.incumbent;
  made.report = "iteration of " + std::to_string(pattern.requests.size()) + " requests, " +
                std::to_string(members.size()) + " planned ";
  made.method = "as served";
  made.planned_requests = members.size();
  if (!all_observed) page_problem.incumbent.clear();
  planner::PagePlan planned = planner::PlanPages(page_problem, SolveWithin(request.deadline_ms));
  const bool incumbent_fits = all_observed && !planner::FindSlotViolation(page_problem.problem, page_problem.incumbent);
  if (planned.status == planner::Solution::Status::kMalformed) {
    made.report += "where they were served (" + planned.error + ")";
  } else if (planned.handles_to_map != 0 &&
             (incumbent_fits || (all_observed && planned.handles_to_map > page_problem.held_pages))) {
    // What is held is held: fewer pages than that buy this run nothing, and mapping costs. Where an incumbent of
    // several iterations does not fit itself everywhere, the few requests whose slot is taken are served online.
    made.report += "where they were served";
  } else {
    made.report += "on " + std::to_string(planned.page_count - hole_pages) + " pages (at least " +
                   std::to_string(planned.lower_bound_pages - hole_pages) + ", held " +
                   std::to_string(page_problem.held_pages - hole_pages) + "), " +
                   std::to_string(planned.handles_to_map) + " to map, by " + planned.method;
    made.method = planned.method;
    slots = std::move(planned.slots);
  }

  auto plan = std::make_shared<PlanInForce>();
  plan->slots.resize(pattern.requests.size());
  if (!order.empty()) plan->order.resize(pattern.requests.size());
  Granule top = 0;
  for (std::size_t k = 0; k < members.size(); ++k) {
    BlockPlace& slot = plan->slots[members[k]];
    slot = PlaceOf(slots[k]);
    if (!order.empty()) plan->order[members[k]] = order[k];
    if (slot.kind == BlockPlace::Kind::kRun)
      top = std::max(top, slot.begin + GranulesOf(page_problem.problem.requests[k].size_bytes));
  }
  if (HasUnplanned(pattern)) plan->online_from = PageAfter(top);
  plan->prepared = Matcher::Prepare(pattern);
  made.in_force = std::move(plan);

  return made;
}

planner::Plan MakeKeptPlan(const PlanRequest& request) {
  const Pattern& pattern = request.pattern;
  std::vector<std::size_t> members;
  planner::PageProblem alone;
  alone.problem = ProblemOf(pattern, &members);
  planner::Plan kept;
  kept.period = pattern.period;
  Bytes bottom = 0;
  const auto persistent = PersistentBlocks(pattern, request.memory);
  const bool have_sites = std::any_of(persistent.begin(), persistent.end(), [&](const auto& block) {
    const SeenBlocks::Block* seen = request.seen.Find(block.info.number);
    return seen != nullptr && seen->call_site != 0;
  });
  for (const auto& block : persistent) {
    const SeenBlocks::Block* seen = request.seen.Find(block.info.number);
    if (seen == nullptr || (have_sites && seen->call_site == 0)) continue;
    planner::PlannedRequest planned;
    planned.call_site = seen->call_site;
    planned.size_bytes = block.info.size_bytes;
    planned.occurrence = seen->occurrence;
    planned.slot.kind = planner::Slot::Kind::kRun;
    planned.slot.offset_bytes = bottom;
    bottom += RoundUp(block.info.size_bytes);
    kept.persistent.push_back(std::move(planned));
  }
  if (bottom != 0) alone.problem.fixed.push_back({0, bottom});
  const std::vector<SlotOrder> order = AddStreamOrder(pattern, members, request.seen, request.order, &alone.problem);
  planner::PagePlan from_empty = planner::PlanPages(alone, SolveWithin(request.deadline_ms));
  if (from_empty.handles_to_map > 2 * from_empty.page_count) {  // the next run would map every page several times over
    alone.paged_from_bytes = planner::kUnlimited;
    from_empty = planner::PlanPages(alone, SolveWithin(request.deadline_ms));
  }
  kept.height_bytes = from_empty.height_bytes;
  kept.page_count = from_empty.page_count;
  kept.lower_bound_bytes = planner::LowerBound(alone.problem);
  std::size_t next_member = 0;
  for (std::size_t i = 0; i < pattern.requests.size(); ++i) {
    planner::PlannedRequest planned = PlannedOf(pattern.requests[i]);
    if (next_member < members.size() && members[next_member] == i) {
      if (next_member < from_empty.slots.size()) planned.slot = from_empty.slots[next_member];
      if (!order.empty()) {
        planned.waits = order[next_member].waits;
        planned.waited_for = order[next_member].waited_for;
      }
      ++next_member;
    }
    kept.iteration.push_back(std::move(planned));
  }
  return kept;
}

std::shared_ptr<PlanInForce> PlanFrom(const planner::Plan& plan) {
  auto in_force = std::make_shared<PlanInForce>();
  Pattern pattern;
  pattern.period = plan.period;
  for (const planner::PlannedRequest& planned : plan.iteration) {
    PatternRequest r;
    r.call_site = planned.call_site;
    r.size_bytes = planned.size_bytes;
    r.occurrence = planned.occurrence;
    r.stream = planned.stream;
    r.begin = planned.begin;
    r.end = planned.end;
    r.size_varies = planned.size_bytes == 0;
    pattern.requests.push_back(r);
    in_force->slots.push_back(PlaceOf(planned.slot));
    in_force->order.push_back({planned.waits, planned.waited_for});
  }
  const bool complete = std::all_of(in_force->slots.begin(), in_force->slots.end(),
                                    [](const BlockPlace& slot) { return slot.kind != BlockPlace::Kind::kNone; });
  Granule kept_end = 0;
  for (const planner::PlannedRequest& planned : plan.persistent) {
    auto& known = in_force->persistent[PlanInForce::PersistentKey(planned.call_site, planned.size_bytes)];
    known.places.emplace_back(planned.occurrence, PlaceOf(planned.slot));
    const auto end = static_cast<Granule>((planned.slot.offset_bytes + RoundUp(planned.size_bytes)) / kGranuleBytes);
    kept_end = std::max(kept_end, end);
  }
  for (auto& [key, known] : in_force->persistent)
    std::sort(known.places.begin(), known.places.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  in_force->persistent_left = plan.persistent.size();
  in_force->budget_bytes = plan.page_count * kPageBytes;
  in_force->end = std::max(kept_end, GranulesOf(plan.height_bytes));
  // What the plan does not know lies above what is kept, where the iteration's room is before it begins; above that
  // room as well if the iteration itself has requests that cannot be planned.
  in_force->online_from = PageAfter(complete ? kept_end : GranulesOf(plan.height_bytes));
  in_force->prepared = Matcher::Prepare(pattern);
  return in_force;
}

}  // namespace stalloc::runtime
