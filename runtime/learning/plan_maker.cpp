#include "runtime/learning/plan_maker.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "planner/lower_bound.h"
#include "planner/page_plan.h"
#include "planner/problem_check.h"
#include "planner/validate.h"
#include "runtime/call_sites/call_site.h"
#include "runtime/learning/plan_order.h"

namespace stalloc::runtime {

namespace {

using planner::Bytes;

Granule PageAfter(Granule at) { return (at + kPageGranules - 1) / kPageGranules * kPageGranules; }

bool HasUnplanned(const Pattern& pattern) {
  return std::any_of(pattern.requests.begin(), pattern.requests.end(),
                     [](const PatternRequest& r) { return r.size_varies && !r.scales; });
}

bool Scales(const Pattern& pattern) {
  return std::any_of(pattern.requests.begin(), pattern.requests.end(),
                     [](const PatternRequest& r) { return r.scales; });
}

planner::PlannedRequest PlannedOf(const PatternRequest& r) {
  planner::PlannedRequest planned;
  planned.call_site = r.call_site;
  planned.size_bytes = r.size_varies && !r.scales ? 0 : r.size_bytes;
  planned.scales = r.scales;
  planned.occurrence = r.occurrence;
  planned.stream = r.stream;
  planned.begin = r.begin;
  planned.end = r.end;
  return planned;
}

Pattern PatternOf(const planner::Plan& plan) {
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
    r.scales = planned.scales;
    r.size_varies = planned.size_bytes == 0 || r.scales;
    r.persists = planned.slot.kind == planner::Slot::Kind::kNone;
    pattern.requests.push_back(r);
  }
  return pattern;
}

// What a kept plan was made from, but for the order between streams, which it does not say: what a plan with more room
// would have wrong there is found when its slots are asked for.
std::shared_ptr<const PlanningTask> TaskFrom(const Pattern& pattern, const std::vector<SlotOrder>& order) {
  auto task = std::make_shared<PlanningTask>();
  task->pattern = pattern;
  task->pages.problem = ProblemOf(pattern, &task->members);
  if (std::any_of(order.begin(), order.end(), [](const SlotOrder& o) { return o.waits || o.waited_for; }))
    for (const std::size_t member : task->members) task->order.push_back(order[member]);
  return task;
}

// The pages that hold what lives at the peak.
std::uint64_t PagesLived(const planner::Problem& problem) {
  return (planner::PeakLive(problem) + kPageBytes - 1) / kPageBytes;
}

// A plan may have so many pages where `pages` would be held without it: some of a page are lost wherever blocks lie.
std::uint64_t WithSlack(std::uint64_t pages) { return pages + pages / 200 + 1; }

// The most pages that a plan for this run may have. While the program still grows, what its requests and what it keeps
// by now need together may never have been held.
std::uint64_t MostPages(const PlanningTask& task) {
  std::vector<std::size_t> members;
  planner::Problem as_lived = ProblemOf(task.pattern, &members);  // the task's blocks also live until they are in order
  as_lived.fixed = task.pages.problem.fixed;
  return WithSlack(std::max(PagesLived(as_lived), task.pages.held_pages));
}

// What is held is held: fewer pages than that buy this run nothing, and mapping costs; once memory is short, another
// plan is chosen (plan_choice.h). Where an incumbent does not fit itself everywhere, the few requests whose slot is
// taken are served online, unless streams would be in each other's way and a plan keeps them apart on few pages.
bool RatherAsServed(const PlanningTask& task, const planner::PagePlan& planned, bool incumbent_fits,
                    std::uint64_t most_pages) {
  if (planned.handles_to_map == 0 || !task.all_observed) return false;
  return incumbent_fits || planned.handles_to_map > task.pages.held_pages ||
         (task.order.empty() && planned.page_count > task.pages.held_pages) || planned.page_count > most_pages;
}

// Notes the pages in which `place`, of a block of `granules`, lies.
void TouchPages(const BlockPlace& place, Granule granules, std::vector<bool>* touched) {
  const auto touch = [&](PageNumber page) {
    if (page >= touched->size()) touched->resize(page + 1);
    (*touched)[page] = true;
  };
  if (place.kind == BlockPlace::Kind::kRun && granules != 0) {
    for (Granule at = place.begin / kPageGranules; at <= (place.begin + granules - 1) / kPageGranules; ++at) touch(at);
  }
  for (const PageNumber page : place.pages) touch(page);
}

// The largest runs of the pages that are held in which no slot and no fixed block lies at any time, by falling length.
std::vector<Run> RoomsBeside(const planner::PageProblem& problem, const std::vector<planner::Slot>& slots) {
  constexpr std::size_t kMostRooms = 32;  // any of them may be in use when it is needed
  std::vector<planner::FixedBlock> taken = problem.problem.fixed;
  for (std::size_t k = 0; k < slots.size(); ++k)
    AppendRuns(PlaceOf(slots[k]), problem.problem.requests[k].size_bytes, &taken);
  taken.push_back({problem.held_pages * kPageBytes, 0});
  std::sort(taken.begin(), taken.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  std::vector<Run> rooms;
  Bytes reached = 0;
  for (const planner::FixedBlock& block : taken) {
    if (reached < block.offset)
      rooms.push_back(
          {static_cast<Granule>(reached / kGranuleBytes), static_cast<Granule>(block.offset / kGranuleBytes)});
    reached = std::max(reached, block.offset + block.size_bytes);
  }
  std::stable_sort(rooms.begin(), rooms.end(), [](Run a, Run b) { return a.length() > b.length(); });
  if (rooms.size() > kMostRooms) rooms.resize(kMostRooms);
  return rooms;
}

// What lives on from one iteration into the next takes turns in the places that its like has now; failing these, it
// lies where no slot does.
std::vector<std::vector<Run>> RoomsOf(const PlanningTask& task, const std::vector<planner::Slot>& slots) {
  std::vector<std::vector<Run>> rooms(task.pattern.requests.size());
  for (const auto& [request, run] : task.staying) rooms[request].push_back(run);
  const std::vector<Run> beside = RoomsBeside(task.pages, slots);
  for (std::size_t i = 0; i < rooms.size(); ++i)
    if (task.pattern.requests[i].persists) rooms[i].insert(rooms[i].end(), beside.begin(), beside.end());
  return rooms;
}

// So many times the deadline is given to a search that it has cut short before there was a plan worth taking.
constexpr int kLongerDeadline = 4;

planner::SolveOptions SolveWithin(int deadline_ms) {
  planner::SolveOptions options;
  options.time_limit = std::chrono::milliseconds(deadline_ms);
  return options;
}

}  // namespace

std::shared_ptr<PlanInForce> PlanOf(const PlanningTask& task, const std::vector<planner::Slot>& slots,
                                    const std::vector<SlotOrder>& order) {
  auto plan = std::make_shared<PlanInForce>();
  plan->period = task.pattern.period;
  plan->slots.resize(task.pattern.requests.size());
  if (!order.empty()) plan->order.resize(task.pattern.requests.size());
  if (Scales(task.pattern)) {
    plan->scaled.resize(task.pattern.requests.size());
    plan->task = std::make_shared<PlanningTask>(task);
  }
  Granule top = 0;
  for (std::size_t k = 0; k < task.members.size(); ++k) {
    const Granule granules = GranulesOf(task.pages.problem.requests[k].size_bytes);
    BlockPlace& slot = plan->slots[task.members[k]];
    slot = PlaceOf(slots[k]);
    if (!order.empty()) plan->order[task.members[k]] = order[k];
    if (!plan->scaled.empty()) plan->scaled[task.members[k]].room = granules;
    if (slot.kind == BlockPlace::Kind::kRun) top = std::max(top, slot.begin + granules);
    TouchPages(slot, granules, &plan->touched);
  }
  for (const DeviceMemory::LiveBlock& block : task.kept) {
    auto& known = plan->kept_places[PlanInForce::PersistentKey(block.site, block.info.size_bytes)];
    known.places.push_back(block.place);
    known.places.back().view = kNoView;  // that number may be another view's by the time that it is asked for
  }
  for (const PatternRequest& r : task.pattern.requests)
    plan->uses.push_back({r.begin, r.end, GranulesOf(r.size_bytes)});
  if (HasUnplanned(task.pattern)) plan->online_from = PageAfter(top);
  plan->rooms = RoomsOf(task, slots);
  plan->prepared = Matcher::Prepare(task.pattern);
  return plan;
}

MadePlan MakePlan(const PlanRequest& request) { return MakePlan(TaskOf(request), request.deadline_ms); }

MadePlan MakePlan(const PlanningTask& task, int deadline_ms) {
  planner::PageProblem problem = task.pages;
  if (!task.all_observed) problem.incumbent.clear();
  if (task.all_observed) problem.most_handles = problem.held_pages;
  planner::PagePlan planned = planner::PlanPages(problem, SolveWithin(deadline_ms));
  const bool incumbent_fits = task.all_observed && !planner::FindSlotViolation(problem.problem, problem.incumbent);
  const bool malformed = planned.status == planner::Solution::Status::kMalformed;
  const std::uint64_t most_pages = malformed ? 0 : MostPages(task);
  // Where requests were served in each other's way, a plan is worth waiting for. (A malformed one is never cut short.)
  if (!incumbent_fits && planned.cut_short && RatherAsServed(task, planned, incumbent_fits, most_pages))
    planned = planner::PlanPages(problem, SolveWithin(kLongerDeadline * deadline_ms));
  MadePlan made;
  made.report = "iteration of " + std::to_string(task.pattern.requests.size()) + " requests, " +
                std::to_string(task.members.size()) + " planned ";
  made.method = "as served";
  made.planned_requests = task.members.size();
  const std::vector<planner::Slot>* slots = &task.pages.incumbent;
  if (malformed) {
    made.report += "where they were served (" + planned.error + ")";
  } else if (RatherAsServed(task, planned, incumbent_fits, most_pages)) {
    made.report += "where they were served";
    if (planned.page_count > most_pages)
      made.report += ", for a plan has " + std::to_string(planned.page_count - task.hole_pages) + " pages";
  } else {
    made.report += "on " + std::to_string(planned.page_count - task.hole_pages) + " pages (at least " +
                   std::to_string(planned.lower_bound_pages - task.hole_pages) + ", held " +
                   std::to_string(problem.held_pages - task.hole_pages) + "), " +
                   std::to_string(planned.handles_to_map) + " to map, by " + planned.method;
    made.method = planned.method;
    slots = &planned.slots;
  }
  made.in_force = PlanOf(task, *slots, task.order);
  return made;
}

std::string ExcessOf(const planner::Plan& plan) {
  std::vector<std::size_t> members;
  planner::Problem alone = ProblemOf(PatternOf(plan), &members);
  for (const planner::PlannedRequest& kept : plan.persistent)
    alone.fixed.push_back({kept.slot.offset_bytes, WholeGranules(kept.size_bytes)});
  if (const auto malformed = planner::FindMalformed(alone)) return *malformed;
  const std::uint64_t lived = PagesLived(alone);
  if (plan.page_count <= WithSlack(lived)) return {};
  return "it has " + std::to_string(plan.page_count) + " pages where " + std::to_string(lived) + " live at the peak";
}

planner::Plan OutlineOf(const PlanRequest& request) {
  planner::Plan outline;
  outline.period = request.pattern.period;
  const auto persistent = PersistentBlocks(request.pattern, request.memory);
  const bool have_sites = std::any_of(persistent.begin(), persistent.end(), [&](const auto& block) {
    const SeenBlocks::Block* seen = request.seen.Find(block.info.number);
    return seen != nullptr && seen->call_site != 0;
  });
  Bytes bottom = 0;
  for (const auto& block : persistent) {
    const SeenBlocks::Block* seen = request.seen.Find(block.info.number);
    if (seen == nullptr || (have_sites && seen->call_site == 0)) continue;
    planner::PlannedRequest planned;
    planned.call_site = seen->call_site;
    planned.size_bytes = block.info.size_bytes;
    planned.occurrence = seen->occurrence;
    planned.slot.kind = planner::Slot::Kind::kRun;
    planned.slot.offset_bytes = bottom;
    bottom += WholeGranules(block.info.size_bytes);
    outline.persistent.push_back(std::move(planned));
  }
  for (const PatternRequest& r : request.pattern.requests) outline.iteration.push_back(PlannedOf(r));
  return outline;
}

void FindSlots(const PlanRequest& request, planner::Plan* outline) {
  std::vector<std::size_t> members;
  planner::PageProblem alone;
  alone.problem = ProblemOf(request.pattern, &members);
  if (!outline->persistent.empty()) {
    const planner::PlannedRequest& last = outline->persistent.back();
    alone.problem.fixed.push_back({0, last.slot.offset_bytes + WholeGranules(last.size_bytes)});
  }
  const std::vector<SlotOrder> order =
      AddStreamOrder(request.pattern, members, request.seen, request.order, &alone.problem);
  planner::PagePlan from_empty = planner::PlanPages(alone, SolveWithin(request.deadline_ms));
  if (from_empty.handles_to_map > 2 * from_empty.page_count) {  // the next run would map every page several times over
    alone.paged_from_bytes = planner::kUnlimited;
    from_empty = planner::PlanPages(alone, SolveWithin(request.deadline_ms));
  }
  outline->height_bytes = from_empty.height_bytes;
  outline->page_count = from_empty.page_count;
  outline->lower_bound_bytes = planner::LowerBound(alone.problem);
  for (std::size_t k = 0; k < members.size(); ++k) {
    planner::PlannedRequest& planned = outline->iteration[members[k]];
    if (k < from_empty.slots.size()) planned.slot = from_empty.slots[k];
    if (order.empty()) continue;
    planned.waits = order[k].waits;
    planned.waited_for = order[k].waited_for;
  }
}

std::shared_ptr<PlanInForce> PlanFrom(const planner::Plan& plan, KeptBy whom) {
  auto in_force = std::make_shared<PlanInForce>();
  const Pattern pattern = PatternOf(plan);
  in_force->period = plan.period;
  in_force->guess = whom == KeptBy::kAnotherConfiguration;
  if (in_force->guess) in_force->beginning = plan.beginning;
  for (const planner::PlannedRequest& planned : plan.iteration) {
    in_force->slots.push_back(PlaceOf(planned.slot));
    in_force->uses.push_back({planned.begin, planned.end, GranulesOf(planned.size_bytes)});
    in_force->order.push_back({planned.waits, planned.waited_for});
  }
  if (Scales(pattern)) {
    in_force->task = TaskFrom(pattern, in_force->order);
    in_force->scaled.resize(pattern.requests.size());
    for (std::size_t i = 0; i < pattern.requests.size(); ++i)
      in_force->scaled[i].room = GranulesOf(pattern.requests[i].size_bytes);
  }
  const bool complete = std::all_of(in_force->slots.begin(), in_force->slots.end(),
                                    [](const BlockPlace& slot) { return slot.kind != BlockPlace::Kind::kNone; });
  Granule kept_end = 0;
  std::uint32_t number = 0;
  std::uint64_t granules = 0;
  for (const planner::PlannedRequest& planned : plan.persistent) {
    granules += GranulesOf(planned.size_bytes);
    auto& known = in_force->persistent[PlanInForce::PersistentKey(planned.call_site, planned.size_bytes)];
    known.places.push_back({planned.occurrence, PlaceOf(planned.slot), number++, granules});
    const std::uint64_t like = PlanInForce::PersistentKey(SiteTag(planned.call_site), planned.size_bytes);
    in_force->kept_places[like].places.push_back(PlaceOf(planned.slot));
    const auto end =
        static_cast<Granule>((planned.slot.offset_bytes + WholeGranules(planned.size_bytes)) / kGranuleBytes);
    kept_end = std::max(kept_end, end);
  }
  for (auto& [key, known] : in_force->persistent)
    std::sort(known.places.begin(), known.places.end(),
              [](const auto& a, const auto& b) { return a.occurrence < b.occurrence; });
  // What lives on from one iteration into the next takes turns in the places of its like.
  in_force->rooms.resize(plan.iteration.size());
  for (std::size_t i = 0; i < plan.iteration.size(); ++i) {
    const planner::PlannedRequest& planned = plan.iteration[i];
    if (in_force->slots[i].kind != BlockPlace::Kind::kNone || planned.size_bytes == 0) continue;
    for (const planner::PlannedRequest& kept : plan.persistent) {
      if (kept.call_site != planned.call_site || kept.size_bytes != planned.size_bytes) continue;
      const Granule begin = PlaceOf(kept.slot).begin;
      in_force->rooms[i].push_back({begin, begin + GranulesOf(kept.size_bytes)});
    }
  }
  in_force->persistent_left = plan.persistent.size();
  in_force->budget_bytes = plan.page_count * kPageBytes;
  for (std::size_t i = 0; i < plan.iteration.size(); ++i)
    TouchPages(in_force->slots[i], GranulesOf(plan.iteration[i].size_bytes), &in_force->touched);
  for (const planner::PlannedRequest& planned : plan.persistent)
    TouchPages(PlaceOf(planned.slot), GranulesOf(planned.size_bytes), &in_force->touched);
  // What the plan does not know lies above what is kept, where the iteration's room is before it begins; above that
  // room as well if the iteration itself has requests that cannot be planned.
  in_force->online_from = PageAfter(complete ? kept_end : GranulesOf(plan.height_bytes));
  in_force->prepared = Matcher::Prepare(pattern);
  return in_force;
}

}  // namespace stalloc::runtime
