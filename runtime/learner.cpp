#include "runtime/learner.h"

#include <algorithm>

#include "planner/plan_file.h"
#include "runtime/log.h"

namespace stalloc::runtime {

namespace {

// The first look for an iteration is taken after this many observations, the next when there are half as many again, so
// that all looks together cost about as much as the last one.
constexpr std::uint64_t kFirstLook = 256;

// A plan that knows this share of the requests over four iterations is settled.
constexpr double kSettled = 0.97;

// A settled plan is checked at least this many requests apart; when this many checks in a row find less than kPoor of
// the requests matched, the program has changed and is watched again.
constexpr std::uint64_t kCheckRequests = 2000;
constexpr double kPoor = 0.6;
constexpr int kPoorChecks = 3;

}  // namespace

Learner::Learner(DeviceMemory& memory, Options options) : memory_(memory), options_(std::move(options)) {
  finder_.emplace();
  if (options_.planning) memory_.SetObserving(true);
}

std::optional<std::string> Learner::StartFrom(const planner::Plan& plan) {
  if (plan.program != 0 && options_.program != 0 && plan.program != options_.program)
    return "it was made for another program";
  if (!plan.device.empty() && plan.device != options_.device_name)
    return "it was made for a " + plan.device + ", this is a " + options_.device_name;
  if (!memory_.Install(PlanFrom(plan), DeviceMemory::When::kNow)) return "its views could not be mapped";
  ++plans_in_force_;
  period_ = plan.period;
  planned_requests_in_pattern_ = plan.iteration.size();
  return std::nullopt;
}

bool Learner::Step() {
  if (!options_.planning) return false;
  if (memory_.observing()) return Watch();
  Check();
  return false;
}

bool Learner::Watch() {
  bool lost = false;
  memory_.TakeSeen(&batch_, &lost);
  if (lost) {  // there is a hole in what was seen: begin again behind it
    Forget();
    return false;
  }
  if (batch_.empty()) return false;
  observations_.clear();
  for (const DeviceMemory::Seen& seen : batch_) {
    observations_.push_back(seen.observation);
    if (seen.observation.op == Observation::Op::kAllocate)
      blocks_.Add(seen.observation.block,
                  {seen.observation.size_bytes, seen.observation.call_site, seen.begin, seen.view, seen.stream});
  }
  finder_->Observe(observations_);
  seen_ += observations_.size();
  if (seen_ < next_look_) return false;
  next_look_ = std::max(kFirstLook, seen_ + seen_ / 4);

  const double matched = MatchedShare();
  if (awaiting_) {
    if (memory_.awaiting_iteration() && requests_since_plan_ < 2 * planned_requests_in_pattern_) return false;
    awaiting_ = false;  // judged from here on
    MarkChecked();
    return false;
  }
  if (plans_in_force_ != 0 && matched >= kSettled && requests_since_plan_ >= 4 * planned_requests_in_pattern_) {
    // The plan has held for several iterations: nothing is put down from here on.
    memory_.SetObserving(false);
    MarkChecked();
    Forget();
    return false;
  }
  const std::optional<Pattern> pattern = finder_->Find();
  if (!pattern || !Credible(*pattern)) return false;
  // What repeats first is often a part of the iteration (a layer, a micro-batch). A longer period that repeats too is
  // nearer the truth; the one in force already gives way to nothing else while it does well.
  if (plans_in_force_ != 0 && matched >= kPoor && pattern->period <= period_ + period_ / 50) return false;
  return Adopt(*pattern);
}

// Most of an iteration's blocks die within the iteration or the next. Where they do not, what repeats is a part of it:
// forward layers that leave their activations behind.
bool Learner::Credible(const Pattern& pattern) const {
  std::size_t persisting = 0;
  for (const PatternRequest& request : pattern.requests) persisting += request.persists ? 1 : 0;
  return !pattern.requests.empty() && persisting <= pattern.requests.size() / 20;
}

bool Learner::Adopt(const Pattern& pattern) {
  MadePlan made = MakePlan({pattern, blocks_, memory_, options_.deadline_ms});
  if (!memory_.Install(made.in_force, DeviceMemory::When::kNextIteration)) {
    LogWarn("a plan could not be put in force: its views could not be mapped");
    return false;
  }
  ++plans_made_;
  ++plans_in_force_;
  awaiting_ = true;
  period_ = pattern.period;
  planned_requests_in_pattern_ = pattern.requests.size();
  MarkChecked();
  LogInfo("device " + std::to_string(memory_.ordinal()) + ": " + made.report);
  if (!options_.plan_path.empty()) {
    made.kept.program = options_.program;
    made.kept.device = options_.device_name;
    made.kept.device_ordinal = static_cast<std::uint32_t>(memory_.ordinal());
    if (const auto error = planner::WritePlanFile(options_.plan_path, made.kept))
      LogWarn("the plan could not be kept: " + error->Text());
  }
  return true;
}

// The share of requests since the plan was put in force, or was last checked, that it knew.
double Learner::MatchedShare() {
  const MemoryCounters counters = memory_.Counters();
  requests_since_plan_ = counters.planned_requests + counters.online_requests - checked_requests_;
  if (requests_since_plan_ == 0) return 0.0;
  return static_cast<double>(counters.matched_requests - checked_matched_) / static_cast<double>(requests_since_plan_);
}

void Learner::MarkChecked() {
  const MemoryCounters counters = memory_.Counters();
  checked_requests_ = counters.planned_requests + counters.online_requests;
  checked_matched_ = counters.matched_requests;
}

// While a settled plan is in force nothing is put down. If the program no longer does what was planned, it is watched
// again; the plan stays until there is a better one.
void Learner::Check() {
  const double matched = MatchedShare();
  if (requests_since_plan_ < kCheckRequests) return;
  MarkChecked();
  poor_checks_ = matched >= kPoor ? 0 : poor_checks_ + 1;
  if (poor_checks_ < kPoorChecks) return;
  LogInfo("device " + std::to_string(memory_.ordinal()) + ": the program has changed; watching it again");
  poor_checks_ = 0;
  memory_.SetObserving(true);
}

void Learner::Forget() {
  finder_.emplace();
  blocks_.Forget(~std::uint64_t{0}, memory_.LiveBlocks());  // what lives on is still known by its call site
  seen_ = 0;
  next_look_ = kFirstLook;
}

}  // namespace stalloc::runtime
