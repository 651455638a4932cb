#include "runtime/learning/learner.h"

#include <algorithm>

#include "recurrence/recurrence_period.h"
#include "runtime/base/log.h"
#include "runtime/learning/plan_renewal.h"

namespace stalloc::runtime {

namespace {

// The first look for an iteration is taken after this many observations, each of the next when there are a quarter
// more, so that all looks together cost a few times as much as the last one.
constexpr std::uint64_t kFirstLook = 256;

// A plan in force is judged by windows of two iterations' requests. It does well while it knows nearly all of them and
// nearly all of those find their slot free; after two such windows it is settled and nothing is put down any more.
constexpr double kKnown = 0.97;
constexpr double kBusy = 0.03;
constexpr int kGoodWindows = 2;

// A plan of an earlier run is this program's only if it makes so large a part of the plan's requests in an iteration.
constexpr double kWhole = 0.98;

// Where it has not done well after so many windows, or serves next to nothing for some, it stays if it serves at least
// this share of the requests, and is dropped otherwise. If it knew them, its places have been taken since (by the
// optimizer's state, where a micro-batch was planned), and the program is watched on for a plan around that; if it did
// not, requests differ from iteration to iteration, and serving online is cheaper than matching in vain.
constexpr int kTrialWindows = 6;
constexpr int kHopelessWindows = 2;
constexpr double kWorthwhile = 0.7;
constexpr double kHopeless = 0.1;
constexpr double kHopelessScaled = 0.5;  // where sizes scale, more is asked: what is not served is in the way

// Where sizes scale and so large a part of the requests finds its place taken, there is another to be found: what the
// program keeps lies elsewhere than when the plan was made.
constexpr double kTaken = 0.1;
// Such a plan is made anew after twice as many iterations each time, as often as this: sizes may just not fit together.
constexpr int kMostDoublings = 6;

// Where there are two lengths, each may outgrow the plan while the other does not, and no plan has room for the largest
// of both. What is then served online lies around slots that are used in part: between them are parts of pages that
// nobody can use. The second time the plan is dropped; once happens to plans that do well (tests/bench/RESULTS.md).
constexpr int kMostOutgrown = 2;

// Without a plan after so many observations the program is left alone for as long as it was watched; twice as long each
// further time in a row, up to kLongestPause times as long as it was watched.
constexpr std::uint64_t kPatience = std::uint64_t{1} << 18;
constexpr std::uint64_t kLongestPause = 64;
// The same once some iterations were found that cannot be planned, or were in vain (unplannable_limit_); half as many
// each further time, for a program that differed so far will mostly go on so, and to be watched costs it time.

std::uint64_t RoomOf(const Pattern& pattern) {
  std::uint64_t bytes = 0;
  for (const PatternRequest& request : pattern.requests) bytes += request.scales ? request.size_bytes : 0;
  return bytes;
}

}  // namespace

Learner::Learner(DeviceMemory& memory, Options options)
    : memory_(memory), options_(std::move(options)), keeper_(options_.shelf), chooser_(memory) {
  finder_.emplace();
  if (options_.planning) memory_.SetObserving(true);
  if (!options_.planning) status_.state = PlanStatus::State::kOff;
}

PlanStatus Learner::status() const {
  std::lock_guard lock(status_mutex_);
  return status_;
}

// Nothing here needs memory. What it leaves may be half a thing, and is not looked at any more.
void Learner::GiveUp() noexcept {
  given_up_ = true;
  End();
  chooser_.Forget();
  StopObserving();
  memory_.EndChoice();
  candidates_.clear();
  finder_.reset();
  batch_ = {};
  observations_ = {};
  Tell([](PlanStatus& status) { status.reason = PlanStatus::Reason::kNoHostMemory; });
}

bool Learner::Step(PlanChooser::Clock::time_point now) {
  const SpentTimer timer(memory_.spent(), Cause::kLearning, CLOCK_THREAD_CPUTIME_ID);
  if (!options_.planning || given_up_) return false;
  memory_.FreeRetiredPlans();
  memory_.TidyViews();
  FollowChoice();
  NoteReturn();
  const bool renewed = Renew();
  if (watching_) return Watch() || renewed;
  NoteBeginning();
  Check(now);
  return renewed;
}

// Fetches what has been put down since the last call into observations_, batch_ and what is known of blocks and order.
// Returns false if some of it was lost.
bool Learner::TakeSeen() {
  bool lost = false;
  memory_.TakeSeen(&batch_, &lost);
  if (lost) {
    beginning_.End();
    return false;
  }
  observations_.clear();
  for (const SeenLog::Entry& seen : batch_) {
    if (seen.order) {
      order_.Add(seen.stream, seen.fence, now_);
      continue;
    }
    observations_.push_back(seen.observation);
    if (seen.observation.op == Observation::Op::kAllocate) {
      SeenBlocks::Block block;
      block.size_bytes = seen.observation.size_bytes;
      block.call_site = seen.observation.call_site;
      block.begin = seen.begin;
      block.view = seen.view;
      block.stream = seen.stream;
      block.made_at = now_;
      blocks_.Add(seen.observation.block, block);
      beginning_.Add(block.size_bytes);
    } else {
      blocks_.Free(seen.observation.block, seen.fence, now_);
    }
    ++now_;
  }
  return true;
}

bool Learner::Watch() {
  if (!TakeSeen()) {  // there is a hole in what was seen: begin again behind it
    Forget();
    return false;
  }
  if (batch_.empty()) return false;
  finder_->Observe(observations_);
  seen_ += observations_.size();
  if (seen_ < next_look_) return false;
  next_look_ = std::max(kFirstLook, seen_ + seen_ / 4);
  // A plan of sizes that scale is judged as soon as can be: what is larger has no room in it.
  if (pattern_requests_ != 0 && memory_.in_force().scales)
    next_look_ = std::min(next_look_, seen_ + (4 * pattern_requests_ << std::min(adopted_in_a_row_, kMostDoublings)));

  if (awaiting_) {
    if (memory_.awaiting_iteration() && Window().requests < 2 * pattern_requests_) return false;
    awaiting_ = false;  // judged from here on
    Tell([](PlanStatus& status) { status.state = PlanStatus::State::kOnTrial; });
    BeginWindow();
    return false;
  }
  if (pattern_requests_ == 0 && memory_.sorting()) {
    // Iterations differ, and what they cost is seen to already. For a while they may be alike, but a plan for these
    // would be in the way of the next that is not (tests/bench/RESULTS.md).
    LeaveAlone(PlanStatus::Reason::kIterationsDiffer);
    return false;
  }
  if (pattern_requests_ != 0 && Judge()) return false;
  const std::optional<Pattern> pattern = finder_->Find();
  if (pattern && Credible(*pattern) && !Plannable(*pattern)) {
    ++unplannable_found_;
    Tell([](PlanStatus& status) { status.reason = PlanStatus::Reason::kIterationsDiffer; });
  }
  if (!pattern || !Credible(*pattern) || !Plannable(*pattern)) {
    if (pattern_requests_ == 0 && (seen_ >= kPatience || unplannable_found_ >= unplannable_limit_))
      LeaveAlone(unplannable_found_ != 0 ? PlanStatus::Reason::kIterationsDiffer : PlanStatus::Reason::kNoIteration);
    return false;
  }
  return GivesWayTo(*pattern) && Adopt(*pattern);
}

// Whether the plan in force, if there is one, should be replaced by one for `pattern`.
bool Learner::GivesWayTo(const Pattern& pattern) const {
  if (pattern_requests_ == 0) return true;
  if (const std::optional<PlanFollower::Scaled> scaled = memory_.ScaledPlan()) {
    // Its first iterations may have been larger still, or be larger than those of the run before. What has less room is
    // the same program in small iterations.
    const Pattern& planned = scaled->plan->task->pattern;
    if (!recurrence::SameLength(pattern.requests.size(), planned.requests.size())) return known_share_ < kKnown;
    return RoomOf(pattern) > RoomOf(planned) || known_share_ < kWorthwhile || busy_share_ > kTaken;
  }
  // What repeats first is often a part of the iteration (a layer, a micro-batch): a longer period that repeats too is
  // nearer the truth. A plan that does well gives way to nothing else, and one that knows all requests, and is of no
  // longer an iteration, to no part of it: some of its places are taken, and the whole has not been seen often enough
  // yet to be planned anew.
  const std::int64_t alike = period_ / 50;
  if (pattern.period > period_ + alike) return true;
  const bool part = pattern.period < period_ - alike && known_share_ >= kKnown && !OnlyResembles();
  return !doing_well_ && !part;
}

// Looks at the plan in force once a window is full. Returns true if watching has ended.
bool Learner::Judge() {
  const Counts window = Window();
  if (window.requests < 2 * pattern_requests_) return false;
  BeginWindow();
  ++windows_;
  const auto requests = static_cast<double>(window.requests);
  known_share_ = static_cast<double>(window.matched) / requests;
  busy_share_ = static_cast<double>(window.busy) / requests;
  doing_well_ = known_share_ >= kKnown && busy_share_ <= kBusy && !(from_disk_ && OnlyResembles());
  good_windows_ = doing_well_ ? good_windows_ + 1 : 0;
  if (doing_well_) watched_from_ = Now().requests;
  const bool scaled = memory_.in_force().scales;
  const double hopeless = scaled ? kHopelessScaled : kHopeless;
  hopeless_windows_ = static_cast<double>(window.planned) < hopeless * requests ? hopeless_windows_ + 1 : 0;
  if (good_windows_ >= kGoodWindows) {
    Settle();
    return true;
  }
  if (windows_ < kTrialWindows && hopeless_windows_ < kHopelessWindows) return false;
  if (static_cast<double>(window.planned) >= kWorthwhile * requests) {
    Settle();
    return true;
  }
  if (!candidates_.empty()) {
    GiveUpKept(kNobodyKnows);
    return true;
  }
  const bool taken = known_share_ >= kWorthwhile && (!scaled || busy_share_ > kTaken);
  Drop(taken ? "the plan's places are taken" : nullptr);
  return true;
}

// The plan in force does no good. For that `reason` another one may; nullptr: none will.
void Learner::Drop(const char* reason) {
  memory_.Install(nullptr, PlanFollower::When::kNow);
  chooser_.Forget();
  pattern_requests_ = 0;
  awaiting_ = false;
  const std::string device = "device " + std::to_string(memory_.ordinal());
  if (reason != nullptr && ++unplannable_found_ < unplannable_limit_) {
    LogInfo(device + ": " + reason + "; watching on for another");
    if (!watching_) WatchAgain();
    Tell([](PlanStatus& status) { status.state = PlanStatus::State::kWatching; });
  } else {
    LogInfo(device + ": iterations differ too much to be planned; serving online");
    if (kept_period_ == 0) WithdrawKept();  // nothing has done well yet
    LeaveAlone(PlanStatus::Reason::kIterationsDiffer);
  }
}

// The plan has places for requests that never come: it is of another rank's or run's iteration, in which this one is
// contained, and holds memory for more than this one needs.
bool Learner::OnlyResembles() const {
  const PlanFollower::InForce now = memory_.in_force();
  return !now.scales && now.requests_made != 0 &&
         static_cast<double>(now.requests_made) < kWhole * static_cast<double>(now.requests);
}

void Learner::LeaveAlone(PlanStatus::Reason reason) {
  Tell([&](PlanStatus& status) {
    status.state = PlanStatus::State::kLeftAlone;
    status.reason = reason;
  });
  if (unplannable_found_ != 0) unplannable_limit_ = std::max(1, unplannable_limit_ / 2);
  unplannable_found_ = 0;
  const std::uint64_t now = Now().requests;
  const std::uint64_t watched = now - watched_from_;
  pause_requests_ = pause_requests_ == 0 ? watched : std::min(2 * pause_requests_, kLongestPause * watched);
  resume_at_ = now + pause_requests_;
  adopted_in_a_row_ = 0;
  Rest();
}

// Most of an iteration's blocks die within the iteration or the next. Where they do not, what repeats is a part of it:
// forward layers that leave their activations behind. Many blocks may stay if they are small, as a history of losses.
bool Learner::Credible(const Pattern& pattern) const {
  constexpr std::size_t kMostStaying = 20;  // one request in so many
  constexpr std::size_t kMostSmall = 4;     // or in so many, with ...
  constexpr std::uint64_t kSmall = 1000;    // ... one byte in so many
  std::size_t staying = 0;
  std::uint64_t staying_bytes = 0;
  std::uint64_t bytes = 0;
  for (const PatternRequest& request : pattern.requests) {
    bytes += request.size_bytes;
    if (!request.persists) continue;
    ++staying;
    staying_bytes += request.size_bytes;
  }
  if (pattern.requests.empty()) return false;
  const std::size_t requests = pattern.requests.size();
  return staying <= requests / kMostStaying || (staying <= requests / kMostSmall && staying_bytes <= bytes / kSmall);
}

// Planning pays where iterations repeat. Where many sizes change from one to the next without a largest (experts), the
// blocks that come as they may are in the way of those that have a slot, and the search for each one's place in the
// pattern costs more than serving it; online memory holds such programs as close to their peak.
bool Learner::Plannable(const Pattern& pattern) const { return !recurrence::VariesWidely(pattern); }

bool Learner::Adopt(const Pattern& pattern) {
  const PlanRequest request{pattern, blocks_, order_, memory_, options_.deadline_ms};
  MadePlan made = MakePlan(request);
  if (!memory_.Install(made.in_force, PlanFollower::When::kNextIteration)) {
    LogWarn("a plan could not be put in force: its views could not be mapped");
    return false;
  }
  chooser_.Forget();
  BeginTrial(pattern.period, pattern.requests.size());
  ++adopted_in_a_row_;
  awaiting_ = true;
  Tell([&](PlanStatus& status) {
    status = {.state = PlanStatus::State::kWaiting,
              .kept = status.kept,
              .file = status.file,
              .shared = status.shared,
              .method = made.method,
              .period = pattern.period,
              .requests = pattern.requests.size(),
              .planned_requests = made.planned_requests,
              .pressure_switches = status.pressure_switches};
  });
  LogInfo("device " + std::to_string(memory_.ordinal()) + ": " + made.report);
  if (pattern.period >= kept_period_) Keep(pattern);  // for the next run; nobody waits for it
  return true;
}

// Sizes scale, and have become larger than the plan in force has room for.
bool Learner::Renew() {
  const std::optional<PlanFollower::Scaled> outgrown = memory_.TakeOutgrown();
  if (!outgrown) return false;
  PlanningTask task = TaskOf(*outgrown, memory_);
  MakeRoom(*outgrown, memory_, &task);
  if (!IsNeeded(task, memory_)) {
    if (++outgrown_in_vain_ >= kMostOutgrown && candidates_.empty()) Drop("sizes have grown, but not together");
    return false;
  }
  const MadePlan made = MakePlan(task, options_.deadline_ms);
  made.in_force->renewals = outgrown->plan->renewals;
  made.in_force->BePatient(0);
  if (!memory_.Install(made.in_force, PlanFollower::When::kNextIteration)) return false;
  outgrown_in_vain_ = 0;
  chooser_.Forget();
  Tell([&](PlanStatus& status) {
    status.method = made.method;
    status.not_kept.clear();
  });
  LogInfo("device " + std::to_string(memory_.ordinal()) + ": sizes have grown: " + made.report);
  // The order between streams is known of what was watched alone.
  if (task.pattern.period >= kept_period_ && task.pages.problem.streams <= 1) Keep(task.pattern);
  return true;
}

void Learner::BeginTrial(std::int64_t period, std::uint64_t requests) {
  period_ = period;
  pattern_requests_ = requests;
  doing_well_ = true;  // until a window says otherwise
  known_share_ = 1;
  busy_share_ = 0;
  from_disk_ = false;
  outgrown_in_vain_ = 0;
  windows_ = 0;
  good_windows_ = 0;
  hopeless_windows_ = 0;
  poor_checks_ = 0;
  BeginWindow();
}

Learner::Counts Learner::Now() const {
  const MemoryCounters counters = memory_.Counters();
  return {counters.planned_requests + counters.online_requests, counters.matched_requests, counters.slot_busy,
          counters.planned_requests};
}

void Learner::BeginWindow() { window_start_ = Now(); }

Learner::Counts Learner::Window() const {
  const Counts now = Now();
  return {now.requests - window_start_.requests, now.matched - window_start_.matched, now.busy - window_start_.busy,
          now.planned - window_start_.planned};
}

// What comes from here on is not put down.
void Learner::StopObserving() noexcept {
  memory_.SetObserving(false);
  beginning_.End();
}

void Learner::Forget() {
  finder_.emplace();
  blocks_.Forget(~std::uint64_t{0}, memory_.LiveBlocks());  // what lives on is still known by its call site
  order_.Forget();
  seen_ = 0;
  next_look_ = kFirstLook;
}

}  // namespace stalloc::runtime
