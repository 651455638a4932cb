// The part of DeviceMemory that follows the plan: which of its requests is this one, and where is it to lie? All of it
// under the lock.
#include <algorithm>

#include "runtime/call_site.h"
#include "runtime/device_memory.h"

namespace stalloc::runtime {

// The request's place in the plan, if it has one. Moves the plan on.
DeviceMemory::Proposal DeviceMemory::FromPlan(Asked* asked) {
  if (!next_plan_) [[likely]]
    return FromPlanInForce(asked);
  const std::int32_t index = next_plan_->matcher.Match(asked->size_bytes, 0, asked->call_site);
  if (next_plan_->matcher.IterationsSeen() != 0) {
    PutInForce(std::move(next_plan_));
    NoteIteration();  // it takes over where an iteration begins
    return FromSlot(index, asked);
  }
  Proposal proposal = FromPlanInForce(asked);
  // What is to stay until then must not lie in the slots of the next plan.
  if (proposal.place == nullptr && index >= 0 && !next_plan_->HasSlot(index))
    proposal = {.may_wait = MayWait(), .rooms = next_plan_->RoomsOf(index)};
  return proposal;
}

[[gnu::always_inline]] inline DeviceMemory::Proposal DeviceMemory::FromPlanInForce(Asked* asked) {
  if (!candidates_.empty()) [[unlikely]]
    return FromCandidates(asked);
  std::int32_t index = Matcher::kNone;
  if (plan_) {
    if (plan_->persistent_left.load(std::memory_order_relaxed) != 0) {
      // What is made once is no part of the iteration: the matcher would only be led astray.
      if (BlockPlace* place = PersistentPlace(*plan_, *asked)) return FromPersistent(place);
    }
    index = plan_->matcher.Match(asked->size_bytes, 0, asked->call_site);
  }
  if (!other_kinds_.empty() && (index < 0 || astray_ != 0)) [[unlikely]]
    index = FollowOtherKinds(index, *asked);
  return plan_ ? FromSlot(index, asked) : Proposal{};
}

// The plan in force knows the request as one that the program makes once and keeps.
DeviceMemory::Proposal DeviceMemory::FromPersistent(BlockPlace* place) noexcept {
  ++counters_.matched_requests;
  return {.place = place, .may_wait = MayWait()};
}

// The plan in force was asked which of its requests this is: `index`, or none where it is negative.
DeviceMemory::Proposal DeviceMemory::FromSlot(std::int32_t index, Asked* asked) {
  const bool taking_over = iterations_seen_ == took_over_at_;
  if (plan_->matcher.IterationsSeen() != iterations_seen_) NoteIteration();
  if (index < 0) {
    trust_.Unknown();
    return FromKeptPlaces(*asked);
  }
  ++counters_.matched_requests;
  // While it makes what it will keep, a program makes much that no iteration has.
  const bool trusted = trust_.Known() || plan_->persistent_left.load(std::memory_order_relaxed) != 0;
  if (asked->call_site == 0) asked->call_site = plan_->matcher.CallSiteOf(index);
  const auto at = static_cast<std::size_t>(index);
  const SlotOrder order = plan_->order.empty() ? SlotOrder{} : plan_->order[at];
  asked->waited_for = order.waited_for;
  if (!trusted) return FromKeptPlaces(*asked);
  if (!plan_->HasSlot(index)) return {.may_wait = MayWait(), .rooms = plan_->RoomsOf(index)};
  if (!plan_->scaled.empty() && !HasRoom(at, asked)) return {};
  // What was done before left memory in an order of its own, which the plan does not know. A wait sets that right once;
  // a request served elsewhere would lie where others are to, and they where others are.
  return {.place = &plan_->slots[at], .may_wait = (order.waits || taking_over) && MayWait(), .is_slot = true};
}

// A request that the plan in force does not know: perhaps it is the like of a block that the program kept when the plan
// was made, and has given up since.
DeviceMemory::Proposal DeviceMemory::FromKeptPlaces(const Asked& asked) {
  constexpr std::size_t kMostTried = 8;                                        // some of them may live on
  if (plan_->persistent_left.load(std::memory_order_relaxed) != 0) return {};  // these places are still awaited
  const auto found = plan_->kept_places.find(PlanInForce::PersistentKey(SiteTag(asked.call_site), asked.size_bytes));
  if (found == plan_->kept_places.end()) return {};
  PlanInForce::KeptPlaces& known = found->second;
  for (std::size_t tried = 0; tried < std::min(kMostTried, known.places.size()); ++tried) {
    BlockPlace& place = known.places[known.next];
    known.next = (known.next + 1) % known.places.size();
    // Of a view the first page stands for all: what takes the place looks at each.
    const Run run = place.kind == BlockPlace::Kind::kRun
                        ? Run{place.begin, place.begin + asked.granules}
                        : GranulesInPage(place.pages.front(), 0, place.begin, asked.granules);
    if (!space_->AllFree(run)) continue;
    place.view = kNoView;  // the view that it was last taken in may have gone
    return {.place = &place, .may_wait = MayWait()};
  }
  return {};
}

// Where a block lies that an earlier run made once and kept: known by its call site, its size and how many such came
// before it. nullptr: the request is no such block.
BlockPlace* DeviceMemory::PersistentPlace(PlanInForce& plan, const Asked& asked) {
  constexpr std::uint64_t kWarmIterations = 3;  // after these the program has made all that it keeps
  if (plan.matcher.IterationsSeen() >= kWarmIterations) plan.persistent_left.store(0, std::memory_order_relaxed);
  const auto found = plan.persistent.find(PlanInForce::PersistentKey(asked.call_site, asked.size_bytes));
  if (found == plan.persistent.end()) return nullptr;
  PlanInForce::Persistent& known = found->second;
  const std::uint32_t occurrence = known.requests++;
  if (known.next == known.places.size() || known.places[known.next].occurrence != occurrence) return nullptr;
  plan.persistent_left.fetch_sub(1, std::memory_order_relaxed);
  PlanInForce::Persistent::Known& block = known.places[known.next++];
  ++plan.persistent_came;
  plan.persistent_reached = std::max(plan.persistent_reached, block.number + 1);
  return &block.place;
}

}  // namespace stalloc::runtime
