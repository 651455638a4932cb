// The part of PlanFollower that keeps plans of several kinds of iteration: training and evaluation, one batch size and
// another. Nothing allocates on the serving path.
//
// A plan that the program has turned away from is put aside when another takes over. While the plan in force knows what
// comes, the others cost nothing; where it does not, each of them is asked too, by a matcher of its own, and the one
// that has lately known many requests which the plan in force did not takes over in the middle of things: its matcher
// has found its place by then. So the first requests of an iteration are enough, wherever that begins, and single
// requests that are in no plan change nothing. What is in force then goes to the others' side, with its slots, views
// and all. Its places may have been taken since: as with any plan, a slot is looked at before it is handed out.
#include <algorithm>
#include <utility>

#include "runtime/following/plan_follower.h"

namespace stalloc::runtime {

namespace {

constexpr std::size_t kMostOthers = 4;

// So far ahead of the plan in force another takes over. More than any two kinds have in common by chance in a row,
// less than the smallest iteration that is worth it.
constexpr std::uint32_t kLead = 12;

// Requests that the plan in force must know before nobody else is asked any more.
constexpr std::uint32_t kMostAstray = 64;

// Without a plan in force call sites are not taken and nobody looks: the others are given up after so many requests.
constexpr std::uint32_t kFollowedWithoutPlan = 1 << 14;

}  // namespace

// Room for all that may come is made where the learner puts plans aside; a swap makes none.
void PlanFollower::PutAside(std::shared_ptr<PlanInForce> plan) {
  if (!plan->keep) {
    Retire(std::move(plan));
    return;
  }
  // It begins anew when it is asked again.
  plan->matcher.Install(plan->matcher.Install(nullptr));
  other_kinds_.push_back({std::move(plan)});
  if (other_kinds_.size() <= kMostOthers) return;
  Retire(std::move(other_kinds_.front().plan));
  other_kinds_.erase(other_kinds_.begin());
}

// The plan in force knew this request as `index`, or not. Returns what it is to the plan that is in force then.
std::int32_t PlanFollower::FollowOtherKinds(std::int32_t index, const Request& request) {
  astray_ = index < 0 ? std::min(astray_ + 1, kMostAstray) : astray_ - 1;
  if (!plan_ && ++without_plan_ > kFollowedWithoutPlan) {
    for (OtherKind& kind : other_kinds_) Retire(std::move(kind.plan));
    other_kinds_.clear();
    return Matcher::kNone;
  }
  for (std::size_t i = 0; i < other_kinds_.size(); ++i) {
    OtherKind& kind = other_kinds_[i];
    const std::int32_t known = kind.plan->matcher.Match(request.size_bytes, 0, request.call_site);
    if (astray_ == 0 || (known < 0 && index >= 0)) {
      kind.lead = 0;
    } else if (known >= 0 && index < 0) {
      ++kind.lead;
    }
    if (kind.lead < kLead) continue;
    std::shared_ptr<PlanInForce> back = std::move(kind.plan);
    other_kinds_.erase(other_kinds_.begin() + static_cast<std::ptrdiff_t>(i));
    if (plan_) plan_->keep = true;
    PutInForce(std::move(back));
    ++counters_.plan_returns;
    return known;
  }
  return index;
}

void PlanFollower::KeepPlanInForce() {
  other_kinds_.reserve(kMostOthers + 1);
  if (plan_) plan_->keep = true;
}

PlanFollower::InForce PlanFollower::in_force() const {
  if (!plan_) return {.returns = counters_.plan_returns};
  std::uint64_t iterations = 0, most = 0;
  const auto count = [&](const IterationLog::Iteration& iteration) {
    ++iterations;
    most = std::max(most, iteration.spent.requests);
  };
  iterations_.VisitLast(count, 2);
  return {counters_.plan_returns, plan_->slots.size(), plan_->period, plan_->Scales(), iterations < 2 ? 0 : most};
}

}  // namespace stalloc::runtime
