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
// A plan that a run of another configuration has kept is a guess. By the plan of a larger model a program would hold
// memory that it never needs, in places far apart; what was once mapped counts for good, and the plan that it then
// makes of its own iterations must do with where they left things. A run that differs in what does not matter (its
// length, a learning rate) begins as that run did: the plan says how, to the end of the iteration that it was made of,
// and from then on it is no guess any more. As soon as something is otherwise, a plan of sizes that scale is left, for
// nothing else would tell that these are another batch's; and all guesses are once the program does otherwise than the
// best of them says: what that run made once and kept is passed over, as by a model of fewer layers, or large requests
// come that it did not make. From there on it is as if nothing had been kept. Two kept blocks that come the other way
// round are taken for the former: to wait for the one passed over keeps the plan of a model that has one more
// (tests/bench/RESULTS.md).
//
// Once the plan in force has followed two iterations, it is the one. Until then all requests are observed, and with
// that their call sites are taken.
#include <algorithm>
#include <utility>

#include "runtime/following/plan_follower.h"

namespace stalloc::runtime {

namespace {

constexpr std::uint64_t kSettledIterations = 2;

// So far behind the best a candidate is left for good.
constexpr std::uint32_t kHopeless = 256;

// A guess is left once the program has passed over so much, one part in so many of all that the plan holds.
constexpr std::uint64_t kPassedOver = 500;

// Or once so much came that it did not know: more than one part in so many of what it holds, and of what it did know. A
// program does things before its first iteration, and in it, that are in no plan. Chosen on replays: with fewer steps
// than the plan was made in, nine of twelve kinds of training got to at most a tenth of what it holds (in the others
// iterations differ), with half the batch all to 44 % or more.
constexpr std::uint64_t kUnknownOfHeld = 4;
constexpr std::uint64_t kUnknownOfKnown = 8;

}  // namespace

std::uint32_t PlanFollower::Surprises(const Candidate& candidate) {
  const PlanInForce& plan = *candidate.plan;
  return candidate.unknown + plan.persistent_reached - plan.persistent_came;
}

void PlanFollower::StartFrom(Plans plans) {
  if (plans.empty()) return;
  retired_.reserve(kMostRetired + plans.size());  // nothing is taken out of there while the choice is open
  candidates_.reserve(plans.size());
  for (std::shared_ptr<PlanInForce>& plan : plans) {
    if (plan->prepared) plan->matcher.Install(std::move(plan->prepared), NextNumber());
    candidates_.push_back({.plan = std::move(plan)});
  }
  chosen_ = 0;
  ++counters_.plans_installed;
  PutInForce(candidates_.front().plan);
}

void PlanFollower::AskCandidate(Candidate* candidate, const Request& request) {
  PlanInForce& plan = *candidate->plan;
  candidate->persistent = nullptr;
  candidate->index = Matcher::kNone;
  if (plan.settling()) candidate->persistent = PersistentPlace(plan, request);
  if (candidate->persistent == nullptr) candidate->index = plan.matcher.Match(request.size_bytes, 0, request.call_site);
  const bool known = candidate->persistent != nullptr || candidate->index >= 0;
  if (!known) ++candidate->unknown;
  if (request.granules > kPageGranules && (plan.persistent_came != 0 || candidate->began_otherwise))
    (known ? candidate->known_granules : candidate->unknown_granules) += request.granules;
}

// Has the program done as the run did which kept this guess, up to here?
bool PlanFollower::BeginsAlike(const Candidate& candidate) noexcept {
  return candidate.begun != 0 && !candidate.began_otherwise;
}

// Where it has to the end of that run's beginning, the plan is as good as this configuration's own. Small requests do
// not count, of which libraries make one more or less.
void PlanFollower::CompareBeginning(Candidate* candidate, const Request& request) noexcept {
  PlanInForce& plan = *candidate->plan;
  if (!plan.guess || candidate->began_otherwise || request.granules <= kPageGranules) return;
  if (plan.beginning.empty() || plan.beginning[candidate->begun] != request.size_bytes)
    candidate->began_otherwise = true;
  else if (++candidate->begun == plan.beginning.size())
    plan.guess = false;
}

// Does the program do otherwise than the run of another configuration that has kept this plan?
bool PlanFollower::Departs(const Candidate& candidate) {
  const PlanInForce& plan = *candidate.plan;
  if (!plan.guess) return false;
  const std::uint64_t held = plan.budget_bytes / kGranuleBytes;
  if (plan.granules_reached - plan.granules_came > held / kPassedOver) return true;
  return candidate.unknown_granules > held / kUnknownOfHeld + candidate.known_granules / kUnknownOfKnown;
}

// The one that was surprised least often; of several the one that is in force. nullopt: none may be followed.
std::optional<std::size_t> PlanFollower::BestCandidate() const {
  std::optional<std::size_t> best;
  const auto consider = [&](std::size_t i) {
    if (candidates_[i].left) return;
    if (!best || Surprises(candidates_[i]) < Surprises(candidates_[*best])) best = i;
  };
  consider(chosen_);
  for (std::size_t i = 0; i < candidates_.size(); ++i) consider(i);
  return best;
}

PlanFollower::Proposal PlanFollower::FromCandidates(const Request& request) {
  const std::optional<std::size_t> before = BestCandidate();
  for (Candidate& candidate : candidates_) {
    // Who has not been asked about one request does not know where in its plan the program is.
    candidate.left |= before && Surprises(candidate) > Surprises(candidates_[*before]) + kHopeless;
    if (candidate.left) continue;
    CompareBeginning(&candidate, request);
    AskCandidate(&candidate, request);
    // Where sizes scale, a plan knows those of another batch size, too.
    candidate.left = candidate.plan->guess && candidate.began_otherwise && candidate.plan->Scales();
  }
  std::optional<std::size_t> best = BestCandidate();
  if (best && Departs(candidates_[*best])) {
    // But for those whose runs did the same up to here.
    for (Candidate& candidate : candidates_) candidate.left |= candidate.plan->guess && !BeginsAlike(candidate);
    best = BestCandidate();
  }
  if (best != chosen_ && plan_) {
    Pin(*plan_, false);
    plan_.reset();  // it stays among the candidates
    PutInForce(best ? candidates_[*best].plan : nullptr);
  }
  if (!best) return {.call_site = request.call_site};
  chosen_ = *best;
  const Candidate& own = candidates_[chosen_];
  if (own.persistent != nullptr) return FromPersistent(own.persistent, request);
  return FromSlot(own.index, request);
}

std::optional<PlanFollower::Choice> PlanFollower::choice() const {
  if (candidates_.empty()) return std::nullopt;
  const Candidate& own = candidates_[chosen_];
  return Choice{.candidate = chosen_,
                .settled = own.plan->matcher.IterationsSeen() >= kSettledIterations,
                .requests = NextNumber() - 1,
                .unknown = own.unknown,
                .departed = plan_ == nullptr};
}

void PlanFollower::EndChoice() noexcept {
  for (Candidate& candidate : candidates_)
    if (candidate.plan != plan_) Discard(std::move(candidate.plan));
  candidates_.clear();
}

}  // namespace stalloc::runtime
