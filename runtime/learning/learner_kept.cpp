// The part of the learner that has to do with plans on disk: those it starts from, and the one it leaves.
#include <algorithm>
#include <string>
#include <utility>

#include "planner/plan_file.h"
#include "runtime/base/log.h"
#include "runtime/learning/learner.h"

namespace stalloc::runtime {

namespace {

// Of what seems to stay, one part in so many may be freed behind the iteration that a plan to be kept is made of.
constexpr std::uint64_t kMostGoing = 20;

// After so many requests that the best of the kept plans does not know, with hardly any that it does, none of them is
// this process's. A plan that only resembles what the program does is judged as any other, by its iterations.
constexpr std::uint64_t kForeignRequests = 500;
constexpr double kHardlyAny = 0.1;

std::string MadeBy(std::int32_t rank) { return rank < 0 ? "" : ", made by rank " + std::to_string(rank); }

// Why a plan cannot be this program's; empty: it may be.
std::string Foreign(const planner::Plan& plan, const Learner::Options& options) {
  if (plan.program != 0 && options.program != 0 && plan.program != options.program)
    return "it was made for another program";
  if (!plan.device.empty() && !options.device_name.empty() && plan.device != options.device_name)
    return "it was made for a " + plan.device + ", this is a " + options.device_name;
  return {};
}

}  // namespace

void Learner::StartFromKept() {
  if (!options_.planning || options_.shelf.empty()) return;
  std::vector<std::shared_ptr<PlanInForce>> plans;
  const std::vector<std::string> paths = KeptPlans(options_.shelf);
  for (const std::string& path : paths) {
    const auto plan = planner::ReadPlanFile(path);
    if (!plan) {
      LogWarn("the kept plan is left aside: " + plan.error().Text());
      continue;
    }
    std::string reason = Foreign(*plan, options_);
    if (reason.empty()) reason = ExcessOf(*plan);
    if (!reason.empty()) {
      LogInfo("the kept plan " + path + " is left aside: " + reason);
      continue;
    }
    const auto planned =
        std::count_if(plan->iteration.begin(), plan->iteration.end(),
                      [](const planner::PlannedRequest& r) { return r.slot.kind != planner::Slot::Kind::kNone; });
    candidates_.push_back(
        {path, plan->rank, plan->period, plan->iteration.size(), static_cast<std::uint64_t>(planned)});
    const bool same = plan->configuration != 0 && plan->configuration == options_.configuration;
    plans.push_back(PlanFrom(*plan, same ? KeptBy::kThisConfiguration : KeptBy::kAnotherConfiguration));
  }
  Tell([&](PlanStatus& status) {
    status.kept = paths.empty()   ? PlanStatus::Kept::kNone
                  : plans.empty() ? PlanStatus::Kept::kRefused
                                  : PlanStatus::Kept::kUsed;
  });
  if (plans.empty()) return;
  memory_.StartFrom(std::move(plans));
  LogInfo("starting from the kept plan " + candidates_.front().path + MadeBy(candidates_.front().rank) +
          (candidates_.size() > 1 ? ", the first of " + std::to_string(candidates_.size()) : ""));
  TellOfKept();
}

// None of the candidates is of any use, for this reason: it is as if nothing had been kept, and the program is watched
// on.
void Learner::GiveUpKept(const std::string& reason) {
  LogInfo("device " + std::to_string(memory_.ordinal()) + ": " + reason);
  memory_.Install(nullptr, PlanFollower::When::kNow);
  candidates_.clear();
  pattern_requests_ = 0;
  Tell([](PlanStatus& status) { status = {.kept = PlanStatus::Kept::kRefused}; });
}

// Another candidate is in force. It is watched for as long as any plan is on trial: another run made it.
void Learner::TellOfKept() {
  const Candidate& kept = candidates_[chosen_];
  keeper_.StartFrom(kept.path);
  BeginTrial(kept.period, kept.requests);
  from_disk_ = true;
  Tell([&](PlanStatus& status) {
    status.state = PlanStatus::State::kOnTrial;
    status.file = kept.path;
    status.shared = kept.rank >= 0 && kept.rank != options_.rank;
    status.method = "kept";
    status.period = kept.period;
    status.requests = kept.requests;
    status.planned_requests = kept.planned_requests;
  });
}

// The first requests tell which of the kept plans this process needs.
void Learner::FollowChoice() {
  if (candidates_.empty()) return;
  const auto choice = memory_.choice();
  if (choice && choice->candidate != chosen_) {
    chosen_ = choice->candidate;
    LogInfo("device " + std::to_string(memory_.ordinal()) + ": the requests are those of the kept plan " +
            candidates_[chosen_].path + MadeBy(candidates_[chosen_].rank));
    TellOfKept();
  }
  if (choice && choice->departed) {
    GiveUpKept("this run does otherwise than that of other arguments which kept the plan; watching on");
    return;
  }
  if (choice && choice->unknown >= kForeignRequests &&
      static_cast<double>(choice->requests - choice->unknown) < kHardlyAny * static_cast<double>(choice->requests)) {
    GiveUpKept(kNobodyKnows);
    return;
  }
  if (choice && !choice->settled) return;
  if (choice) {
    memory_.EndChoice();
    keeper_.NoteUsed();
  }
  candidates_.clear();
}

// Is the program giving up what it keeps? It is at its end, or about to become another.
bool Learner::Dissolving(const Pattern& pattern, const planner::Plan& outline) const {
  const SeenBlocks::Block* behind = blocks_.Find(pattern.last_block);
  if (behind == nullptr) return false;
  std::uint64_t staying_bytes = 0;
  for (const planner::PlannedRequest& block : outline.persistent) staying_bytes += block.size_bytes;
  return blocks_.BytesFreedSince(pattern.first_block, behind->made_at) > staying_bytes / kMostGoing;
}

// What was kept did no good; neither this run nor the next is to start from it.
void Learner::WithdrawKept() {
  keeper_.Withdraw();
  Tell([](PlanStatus& status) {
    status.file.clear();
    status.shared = false;
  });
}

// Keeps a plan for the next run, where no other process has kept the same.
void Learner::Keep(const Pattern& pattern) {
  if (options_.shelf.empty()) return;
  const PlanRequest request{pattern, blocks_, order_, memory_, options_.kept_deadline_ms};
  planner::Plan plan = OutlineOf(request);
  if (Dissolving(pattern, plan)) return;  // the next run's beginning is not like this
  plan.program = options_.program;
  plan.configuration = options_.configuration;
  plan.device = options_.device_name;
  plan.device_ordinal = static_cast<std::uint32_t>(memory_.ordinal());
  plan.rank = options_.rank.value_or(-1);
  begun_by_ = std::min(begun_by_, pattern.last_block - 1);
  plan.beginning = beginning_.LargeOfFirst(begun_by_);
  const PlanKeeper::Place place = keeper_.PlaceFor(plan);
  if (place.holds == PlanKeeper::Place::Holds::kOwn) return;
  bool shared = place.holds == PlanKeeper::Place::Holds::kAnother;
  if (shared) {
    keeper_.Share(place);
  } else {
    FindSlots(request, &plan);
    if (const std::string excess = ExcessOf(plan); !excess.empty()) {
      LogInfo("device " + std::to_string(memory_.ordinal()) + ": the plan is not kept: " + excess);
      Tell([&](PlanStatus& status) { status.not_kept = excess; });
      return;
    }
    if (const auto error = keeper_.Keep(place, plan, &shared)) {
      LogWarn("the plan could not be kept: " + error->Text());
      return;
    }
  }
  LogInfo("device " + std::to_string(memory_.ordinal()) +
          (shared ? ": shares the plan that another process has kept, " : ": the plan is kept in ") + place.path);
  Tell([&](PlanStatus& status) {
    status.file = place.path;
    status.shared = shared;
  });
}

}  // namespace stalloc::runtime
