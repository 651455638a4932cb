#include "runtime/following/plan_follower.h"

#include <algorithm>

#include "runtime/call_sites/call_site.h"

namespace stalloc::runtime {

PlanFollower::Proposal PlanFollower::Ask(const Request& request) {
  if (next_plan_) [[unlikely]]
    return AskNextPlan(request);
  return AskPlanInForce(request);
}

// Of both plans: the next one takes over where its iteration begins. Not inlined: few requests come here.
[[gnu::noinline]] PlanFollower::Proposal PlanFollower::AskNextPlan(const Request& request) {
  const std::int32_t index = next_plan_->matcher.Match(request.size_bytes, 0, request.call_site);
  if (next_plan_->matcher.IterationsSeen() != 0) {
    PutInForce(std::move(next_plan_));
    NoteIteration();  // it takes over where an iteration begins
    return FromSlot(index, request);
  }
  const std::uint64_t known = counters_.matched_requests;
  Proposal proposal = AskPlanInForce(request);
  if (index < 0) {
    next_trust_.Unknown(request.granules > kPageGranules);
    return proposal;
  }
  const bool trusted = next_trust_.Known();
  if (proposal.place != nullptr) return proposal;
  if (!next_plan_->HasSlot(index)) {
    // What is to stay until then must not lie in the slots of the next plan.
    proposal.may_wait = true;
    proposal.rooms = next_plan_->RoomsOf(index);
  } else if (trusted && plan_ && counters_.matched_requests == known && next_plan_->scaled.empty()) {
    // A part of the next plan's iteration that the one in force does not know: an evaluation after so many training
    // steps. Served elsewhere it would need views of its own, for those that it had before are the next plan's now.
    ++counters_.matched_requests;
    ProposeSlot(*next_plan_, index, next_plan_->OrderOf(index), &proposal);
  }
  return proposal;
}

// The slot of one of the plan's requests, which it has.
void PlanFollower::ProposeSlot(PlanInForce& plan, std::int32_t index, SlotOrder order, Proposal* proposal) noexcept {
  proposal->place = &plan.slots[static_cast<std::size_t>(index)];
  proposal->may_wait = order.waits;
  proposal->waited_for = order.waited_for;
  proposal->is_slot = true;
  if (plan.scaled.empty()) {
    proposal->plan = &plan;
    proposal->request = index;
  }
}

[[gnu::always_inline]] inline PlanFollower::Proposal PlanFollower::AskPlanInForce(const Request& request) {
  if (!candidates_.empty()) [[unlikely]]
    return FromCandidates(request);
  std::int32_t index = Matcher::kNone;
  if (plan_) {
    if (plan_->settling()) {
      // What is made once is no part of the iteration: the matcher would only be led astray.
      if (BlockPlace* place = PersistentPlace(*plan_, request)) return FromPersistent(place, request);
    }
    index = plan_->matcher.Match(request.size_bytes, 0, request.call_site);
  }
  if (!other_kinds_.empty() && (index < 0 || astray_ != 0)) [[unlikely]]
    index = FollowOtherKinds(index, request);
  return plan_ ? FromSlot(index, request) : Proposal{.call_site = request.call_site};
}

// The plan in force knows the request as one that the program makes once and keeps.
PlanFollower::Proposal PlanFollower::FromPersistent(BlockPlace* place, const Request& request) noexcept {
  PublishExpected(*plan_);
  ++counters_.matched_requests;
  return {.place = place, .call_site = request.call_site, .may_wait = true};
}

// The plan in force was asked which of its requests this is: `index`, or none where it is negative.
PlanFollower::Proposal PlanFollower::FromSlot(std::int32_t index, const Request& request) {
  PlanInForce& plan = *plan_;
  PublishExpected(plan);
  Proposal proposal{.call_site = request.call_site};
  const bool taking_over = iterations_seen_ == took_over_at_;
  if (plan.matcher.IterationsSeen() != iterations_seen_) NoteIteration();
  if (index < 0) {
    ProposeKeptPlace(request, &proposal);
    if (proposal.place == nullptr) trust_.Unknown(request.granules > kPageGranules);
    return proposal;
  }
  ++counters_.matched_requests;
  // While it makes what it will keep, a program makes much that no iteration has.
  const bool trusted = trust_.Known() || plan.settling();
  if (proposal.call_site == 0) proposal.call_site = plan.matcher.CallSiteOf(index);
  const SlotOrder order = plan.OrderOf(index);
  proposal.waited_for = order.waited_for;
  if (!trusted) {
    ProposeKeptPlace(request, &proposal);
    return proposal;
  }
  if (!plan.HasSlot(index)) {
    proposal.may_wait = true;
    proposal.rooms = plan.RoomsOf(index);
    return proposal;
  }
  if (!plan.scaled.empty()) {
    proposal.scaled = index;
    proposal.takeover = takeovers_;
    if (!HasRoom(static_cast<std::size_t>(index), request)) return proposal;
  }
  ProposeSlot(plan, index, order, &proposal);
  // What was done before left memory in an order of its own, which the plan does not know. A wait sets that right once;
  // a request served elsewhere would lie where others are to, and they where others are.
  proposal.may_wait = proposal.may_wait || taking_over;
  return proposal;
}

// A request that the plan in force does not know: perhaps it is the like of a block that the program kept when the plan
// was made, and has given up since.
void PlanFollower::ProposeKeptPlace(const Request& request, Proposal* proposal) {
  constexpr std::size_t kMostTried = 8;  // some of them may live on
  if (plan_->settling()) return;         // these places are still awaited
  const std::uint64_t key = PlanInForce::PersistentKey(SiteTag(proposal->call_site), request.size_bytes);
  const auto found = plan_->kept_places.find(key);
  if (found == plan_->kept_places.end()) return;
  PlanInForce::KeptPlaces& known = found->second;
  for (std::size_t tried = 0; tried < std::min(kMostTried, known.places.size()); ++tried) {
    BlockPlace& place = known.places[known.next];
    known.next = (known.next + 1) % known.places.size();
    // Of a view the first page stands for all: what takes the place looks at each.
    const Run run = place.kind == BlockPlace::Kind::kRun
                        ? Run{place.begin, place.begin + request.granules}
                        : GranulesInPage(place.pages.front(), 0, place.begin, request.granules);
    if (!space_.AllFree(run)) continue;
    place.view = kNoView;  // the view that it was last taken in may have gone
    proposal->place = &place;
    proposal->may_wait = true;
    return;
  }
}

// Where a block lies that an earlier run made once and kept: known by its call site, its size and how many such came
// before it. nullptr: the request is no such block.
BlockPlace* PlanFollower::PersistentPlace(PlanInForce& plan, const Request& request) {
  constexpr std::uint64_t kWarmIterations = 3;  // after these the program has made all that it keeps
  if (plan.matcher.IterationsSeen() >= kWarmIterations) plan.persistent_left = 0;
  const auto found = plan.persistent.find(PlanInForce::PersistentKey(request.call_site, request.size_bytes));
  if (found == plan.persistent.end()) return nullptr;
  PlanInForce::Persistent& known = found->second;
  const std::uint32_t occurrence = known.requests++;
  if (known.next == known.places.size() || known.places[known.next].occurrence != occurrence) return nullptr;
  --plan.persistent_left;
  PlanInForce::Persistent::Known& block = known.places[known.next++];
  ++plan.persistent_came;
  plan.persistent_reached = std::max(plan.persistent_reached, block.number + 1);
  plan.granules_came += request.granules;
  plan.granules_reached = std::max(plan.granules_reached, block.up_to);
  return &block.place;
}

void PlanFollower::NoteIteration() noexcept {
  trust_.Begin();
  iterations_seen_ = plan_->matcher.IterationsSeen();
  const MemoryCounters& now = memory_counters_;
  iterations_.Boundary({.requests = now.planned_requests + now.online_requests,
                        .planned = now.planned_requests,
                        .map_calls = cost_.map_calls.load(std::memory_order_relaxed),
                        .waits = now.waits_inserted,
                        .spent = cost_.spent.Now()},
                       plan_->slots.size());
}

}  // namespace stalloc::runtime
