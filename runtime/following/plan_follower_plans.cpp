// The part of PlanFollower that knows which plans there are: installed, put in force, put aside, retired.
#include <utility>

#include "runtime/following/plan_follower.h"

namespace stalloc::runtime {

void PlanFollower::Install(std::shared_ptr<PlanInForce> plan, When when) {
  EndChoice();
  if (next_plan_) {
    Retire(std::move(next_plan_));
    if (plan) Pin(*plan, true);
    PinAll();
  }
  if (plan) {
    if (plan->prepared) plan->matcher.Install(std::move(plan->prepared), NextNumber());
    ++counters_.plans_installed;
  }
  if (plan && when == When::kNextIteration) {
    next_plan_ = std::move(plan);
    next_trust_.Begin();
  } else {
    PutInForce(std::move(plan));
  }
}

// What was in force before is put aside.
void PlanFollower::PutInForce(std::shared_ptr<PlanInForce> plan) {
  if (plan_) PutAside(std::move(plan_));
  plan_ = std::move(plan);
  ++takeovers_;
  iterations_seen_ = plan_ ? plan_->matcher.IterationsSeen() : 0;
  trust_.Begin();
  took_over_at_ = iterations_seen_;
  astray_ = without_plan_ = 0;
  for (OtherKind& kind : other_kinds_) kind.lead = 0;
  PinAll();
  if (plan_) {
    PublishExpected(*plan_);
  } else {
    expected_.store(kNoPlan, std::memory_order_relaxed);
  }
}

// Its views may go.
void PlanFollower::Retire(std::shared_ptr<PlanInForce> plan) {
  Pin(*plan, false);
  Discard(std::move(plan));
}

// Nobody follows it any more.
void PlanFollower::Discard(std::shared_ptr<PlanInForce> plan) {
  retired_.push_back(std::move(plan));
  ++retirements_;
}

// Views that a plan has slots in are kept as they are.
void PlanFollower::Pin(const PlanInForce& plan, bool pinned) {
  for (const BlockPlace& slot : plan.slots)
    if (slot.view != kNoView) views_[slot.view].pinned = pinned;
}

// Plans share views: where one is unpinned, the others pin theirs anew.
void PlanFollower::PinAll() {
  if (plan_) Pin(*plan_, true);
  if (next_plan_) Pin(*next_plan_, true);
  for (const OtherKind& kind : other_kinds_) Pin(*kind.plan, true);
}

void PlanFollower::Forget(ViewIndex view) noexcept {
  const auto forget = [&](const std::shared_ptr<PlanInForce>& plan) {
    if (!plan) return;
    for (BlockPlace& slot : plan->slots)
      if (slot.view == view) slot.view = kNoView;
  };
  forget(plan_);
  forget(next_plan_);
  for (const OtherKind& kind : other_kinds_) forget(kind.plan);
  for (const Candidate& candidate : candidates_) forget(candidate.plan);
}

bool PlanFollower::Touches(PageNumber page) const noexcept {
  const auto touches = [&](const PlanInForce* plan) {
    return plan != nullptr && page < plan->touched.size() && plan->touched[page];
  };
  return touches(plan_.get()) || touches(next_plan_.get());
}

}  // namespace stalloc::runtime
