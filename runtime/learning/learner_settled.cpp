// The part of the learner for when no iteration is looked for: a plan has settled, and what it serves is looked at now
// and then, or the program is left alone.
#include <algorithm>
#include <string>

#include "runtime/base/log.h"
#include "runtime/learning/learner.h"
#include "runtime/learning/plan_renewal.h"

namespace stalloc::runtime {

namespace {

// A settled plan is checked at least this many requests apart; when checks_to_renew_ in a row find less than kServed of
// the requests known and their slots, if they have one, free, the program has changed and is watched again, while the
// plan serves on. Each time that no better plan came of it, it takes twice as many checks, up to kMostPoorChecks: for
// some programs no plan does more.
constexpr std::uint64_t kCheckRequests = 2000;
constexpr double kServed = 0.9;
constexpr int kMostPoorChecks = 192;

// With less than this known in a single check, the program does something else altogether.
constexpr double kForeign = 0.1;

// What a program keeps it makes within so many requests, or most of it; until then they are put down in any case. A
// plan that did not know the optimizer's state, because nobody looked when it was made, would have the next run put
// its iteration where that will lie.
constexpr std::uint64_t kBeginning = std::uint64_t{1} << 15;

}  // namespace

void Learner::Settle() {
  Tell([](PlanStatus& status) { status.state = PlanStatus::State::kSettled; });
  unplannable_limit_ = kUnplannable;
  // A plan that was only confirmed, or that does not do well either, is left to itself for longer.
  const bool is_new = adopted_in_a_row_ != 0 || from_disk_;
  checks_to_renew_ = is_new && doing_well_ ? kPoorChecks : std::min(2 * checks_to_renew_, kMostPoorChecks);
  adopted_in_a_row_ = 0;
  pause_requests_ = 0;
  // What was seen of the plan at work says what others could be in its place.
  if (doing_well_) {
    kept_period_ = std::max(kept_period_, period_);
    if (const std::optional<PlanFollower::Scaled> scaled = memory_.ScaledPlan()) {
      chooser_.Begin(TaskOf(*scaled, memory_));
    } else if (const std::optional<Pattern> pattern = finder_->Find();
               pattern && Credible(*pattern) && Plannable(*pattern)) {
      chooser_.Begin(TaskOf({*pattern, blocks_, order_, memory_}));
    }
  }
  BeginWindow();
  Rest();
}

// No iteration is looked for any more.
void Learner::Rest() {
  watching_ = false;
  Forget();
  if (Now().requests >= kBeginning) StopObserving();
}

// What was put down meanwhile is known, but in no iteration.
void Learner::WatchAgain() {
  NoteBeginning();
  Forget();
  memory_.SetObserving(true);
  watching_ = true;
  watched_from_ = Now().requests;
}

// While no iteration is looked for: call sites, and how many of each there were, of what may be there to stay.
void Learner::NoteBeginning() {
  if (!memory_.observing()) return;
  TakeSeen();
  if (Now().requests < kBeginning) return;
  StopObserving();
  Forget();
}

// A kept plan may have taken over by itself. It did well when it was last in force.
void Learner::NoteReturn() {
  const PlanFollower::InForce now = memory_.in_force();
  if (now.returns == returns_seen_) return;
  returns_seen_ = now.returns;
  if (now.requests == 0) return;
  LogInfo("device " + std::to_string(memory_.ordinal()) + ": a plan of an earlier kind of iteration, of " +
          std::to_string(now.requests) + " requests, is in force again");
  chooser_.Forget();
  const bool watching = watching_;
  BeginTrial(now.period, now.requests);
  Tell([&](PlanStatus& status) {
    status.state = watching ? PlanStatus::State::kOnTrial : PlanStatus::State::kSettled;
    status.reason = PlanStatus::Reason::kNone;
    status.period = now.period;
    status.requests = now.requests;
  });
}

// Another plan may have to take over because memory is short.
void Learner::LookAtMemory(PlanChooser::Clock::time_point now) {
  const std::optional<std::string> method = chooser_.Look(now);
  if (!method && chooser_.choices() == told_choices_) return;
  told_choices_ = chooser_.choices();
  Tell([&](PlanStatus& status) {
    status.choices = chooser_.choices();
    status.pressure_switches = chooser_.switches();
    if (method) status.method = *method;
  });
}

// While no iteration is looked for. If the program no longer does what was planned, it is watched again; the plan stays
// until there is a better one.
void Learner::Check(PlanChooser::Clock::time_point now) {
  if (pattern_requests_ == 0) {
    if (Now().requests >= resume_at_ && !memory_.sorting()) {
      WatchAgain();
      Tell([](PlanStatus& status) { status.state = PlanStatus::State::kWatching; });
    }
    return;
  }
  LookAtMemory(now);
  const Counts window = Window();
  if (window.requests < std::max(kCheckRequests, pattern_requests_)) return;
  BeginWindow();
  const auto requests = static_cast<double>(window.requests);
  const bool poor = static_cast<double>(window.matched) < kServed * requests + static_cast<double>(window.busy);
  const bool foreign = static_cast<double>(window.matched) < kForeign * requests;
  poor_checks_ = foreign ? checks_to_renew_ : poor ? poor_checks_ + 1 : 0;
  if (poor_checks_ < checks_to_renew_) return;
  LogInfo("device " + std::to_string(memory_.ordinal()) + ": the program has changed; watching it again");
  memory_.KeepPlanInForce();  // it did well: the program may come back to it
  chooser_.Forget();
  BeginTrial(period_, pattern_requests_);
  doing_well_ = false;
  WatchAgain();
  Tell([](PlanStatus& status) { status.state = PlanStatus::State::kOnTrial; });
}

}  // namespace stalloc::runtime
