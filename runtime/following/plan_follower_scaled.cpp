// The part of PlanFollower that follows plans of iterations whose sizes scale: slots have room for the largest size
// seen, and what needs more is served online and noted, with its place, so that a plan with more room can be made of
// it.
#include <algorithm>

#include "runtime/following/plan_follower.h"

namespace stalloc::runtime {

// Whether the slot has room for the request, which is noted if it has not.
bool PlanFollower::HasRoom(std::size_t index, const Request& request) noexcept {
  ScaledSlot& slot = plan_->scaled[index];
  if (request.granules <= slot.room) [[likely]]
    return true;
  slot.outgrown_bytes = std::max(slot.outgrown_bytes, request.size_bytes);
  plan_->outgrown_in = plan_->matcher.IterationsSeen();
  ++counters_.slot_outgrown;
  return false;
}

void PlanFollower::NoteServedOnline(const Proposal& proposal, ViewIndex view, Granule begin) noexcept {
  const auto index = static_cast<std::size_t>(proposal.scaled);
  if (proposal.takeover != takeovers_ || index >= plan_->scaled.size()) return;
  ScaledSlot& slot = plan_->scaled[index];
  slot.online_in = plan_->matcher.IterationsSeen();
  slot.online_view = view;
  slot.online_begin = begin;
}

std::optional<PlanFollower::Scaled> PlanFollower::ScaledPlan() const {
  if (!plan_ || !plan_->Scales()) return std::nullopt;
  return Scaled{plan_, plan_->scaled, plan_->outgrown_in, SettledBefore(NextNumber(), plan_->slots.size())};
}

std::optional<PlanFollower::Scaled> PlanFollower::TakeOutgrown() {
  if (!plan_ || plan_->outgrown_in == 0 || next_plan_) return std::nullopt;
  const std::uint64_t seen = plan_->matcher.IterationsSeen();
  // Of an iteration that goes on not everything is known. While the program still makes what it will keep, there is
  // nothing yet to plan around.
  if (seen == plan_->outgrown_in || plan_->settling()) return std::nullopt;
  if (seen < plan_->patience_until) return std::nullopt;
  std::optional<Scaled> scaled = ScaledPlan();
  if (!scaled) return std::nullopt;
  ++plan_->renewals;
  plan_->BePatient(seen);
  plan_->outgrown_in = 0;
  return scaled;
}

}  // namespace stalloc::runtime
