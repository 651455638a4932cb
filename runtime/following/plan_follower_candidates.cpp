// The part of PlanFollower that starts from plans of earlier runs, of which one is this process's own: ranks of one
// program that do not behave equally have plans of their own, and so have runs with other arguments.
//
// The first candidate, the one used most recently, is in force from the first request on. Every request is put to all
// of them, and each is counted what it did not expect: a request that it does not know, and a block that should have
// come before this one, in the order in which the program made what it keeps. As soon as another was surprised less
// often than the one in force, it takes over in the middle of things, for it has followed all along. That costs next to
// nothing: what two programs make alike from their beginning on, they put in the same places, side by side from the
// bottom, so that where the first difference tells two plans apart there is nothing yet in the place of another thing.
//
// Once the plan in force has followed two iterations, it is the one. Until then all requests are observed, and with
// that their call sites are taken.
#include <algorithm>
#include <utility>

#include "runtime/following/plan_follower.h"

namespace stalloc::runtime {

namespace {

constexpr std::uint64_t kSettledIterations = 2;

// So far behind the best a candidate is not asked any more.
constexpr std::uint32_t kHopeless = 256;

std::uint32_t SkippedIn(const PlanInForce& plan) { return plan.persistent_reached - plan.persistent_came; }

}  // namespace

void PlanFollower::StartFrom(Plans plans) {
  if (plans.empty()) return;
  for (std::shared_ptr<PlanInForce>& plan : plans) {
    if (plan->prepared) plan->matcher.Install(std::move(plan->prepared), NextNumber());
    candidates_.push_back({.plan = std::move(plan)});
  }
  chosen_ = 0;
  ++counters_.plans_installed;
  PutInForce(candidates_.front().plan);
}

PlanFollower::Proposal PlanFollower::FromCandidates(const Request& request) {
  const auto surprises = [](const Candidate& candidate) { return candidate.unknown + SkippedIn(*candidate.plan); };
  std::uint32_t fewest = surprises(candidates_[chosen_]);
  for (const Candidate& candidate : candidates_) fewest = std::min(fewest, surprises(candidate));
  std::size_t best = chosen_;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    Candidate& candidate = candidates_[i];
    if (i != chosen_ && surprises(candidate) > fewest + kHopeless) continue;
    PlanInForce& plan = *candidate.plan;
    candidate.persistent = nullptr;
    candidate.index = Matcher::kNone;
    if (plan.settling()) candidate.persistent = PersistentPlace(plan, request);
    if (candidate.persistent == nullptr) candidate.index = plan.matcher.Match(request.size_bytes, 0, request.call_site);
    if (candidate.persistent == nullptr && candidate.index < 0) ++candidate.unknown;
  }
  // A candidate that was not asked cannot be the best: it did not know less of this one request than it lies behind.
  for (std::size_t i = 0; i < candidates_.size(); ++i)
    if (surprises(candidates_[i]) < surprises(candidates_[best])) best = i;
  if (best != chosen_) {
    chosen_ = best;
    Pin(*plan_, false);
    plan_.reset();  // it stays among the candidates
    PutInForce(candidates_[best].plan);
  }
  const Candidate& own = candidates_[best];
  if (own.persistent != nullptr) return FromPersistent(own.persistent, request);
  return FromSlot(own.index, request);
}

std::optional<PlanFollower::Choice> PlanFollower::choice() const {
  if (candidates_.empty()) return std::nullopt;
  const Candidate& own = candidates_[chosen_];
  return Choice{.candidate = chosen_,
                .settled = own.plan->matcher.IterationsSeen() >= kSettledIterations,
                .requests = NextNumber() - 1,
                .unknown = own.unknown};
}

void PlanFollower::EndChoice() {
  for (Candidate& candidate : candidates_)
    if (candidate.plan != plan_) Discard(std::move(candidate.plan));
  candidates_.clear();
}

}  // namespace stalloc::runtime
