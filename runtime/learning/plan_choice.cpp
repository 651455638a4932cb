#include "runtime/learning/plan_choice.h"

#include <algorithm>
#include <utility>

#include "planner/lower_bound.h"
#include "runtime/base/log.h"
#include "runtime/learning/plan_maker.h"

namespace stalloc::runtime {

namespace {

using planner::Bytes;
using std::chrono::milliseconds;
using std::chrono::seconds;

// The search's time, of a processor that nobody else wants.
constexpr auto kSearchTime = milliseconds(1500);

constexpr auto kLookEvery = seconds(1);
constexpr auto kLookAtMostEvery = milliseconds(100);
// For so long what was refused is owed.
constexpr auto kOwedFor = seconds(30);
// After a switch the pages that nobody uses any more are given back: blocks of the iteration before must end first.
constexpr auto kShedFor = seconds(10);
constexpr auto kShedEvery = milliseconds(100);
constexpr auto kFirstPause = seconds(1);
constexpr auto kLongestPause = seconds(64);
constexpr auto kFirstPatience = seconds(60);

// A plan that has more than one in so many slots on blocks that have come to stay since is of no use.
constexpr std::size_t kFewSlots = 50;

// A plan is worth a switch if it saves so many of `pages`: what moves is served online once, and may be in the way.
std::uint64_t Noticeable(std::uint64_t pages) { return std::max<std::uint64_t>(4, pages / 512); }

// Mapping a handle takes tens of microseconds, on the learner's thread; a second of that is the most for a few pages.
constexpr std::uint64_t kHandlesPerPage = 16;

bool Worthwhile(const planner::PlanMerits& smaller, const planner::PlanMerits& than) {
  if (smaller.pages + Noticeable(than.pages) > than.pages) return false;
  return smaller.handles <= kHandlesPerPage * (than.pages - smaller.pages);
}

std::uint64_t PagesTouched(const planner::PageProblem& problem, const std::vector<planner::Slot>& slots) {
  std::vector<bool> touched;
  std::uint64_t pages = 0;
  const auto touch = [&](std::uint64_t page) {
    if (page >= touched.size()) touched.resize(page + 1);
    pages += touched[page] ? 0 : 1;
    touched[page] = true;
  };
  const auto touch_bytes = [&](Bytes begin, Bytes size) {
    if (size == 0) return;
    for (std::uint64_t page = begin / kPageBytes; page <= (begin + size - 1) / kPageBytes; ++page) touch(page);
  };
  for (const planner::FixedBlock& block : problem.problem.fixed) touch_bytes(block.offset, block.size_bytes);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].kind == planner::Slot::Kind::kRun)
      touch_bytes(slots[i].offset_bytes, problem.problem.requests[i].size_bytes);
    for (const std::uint32_t page : slots[i].pages) touch(page);
  }
  return pages;
}

// Of memory that is neither the plan's nor idle within its reach: pages of blocks that it does not know.
std::uint64_t OtherPages(const planner::PlanMerits& in_force, std::uint64_t hole_pages, std::uint64_t held_bytes) {
  const std::uint64_t held = held_bytes / kPageBytes;
  return held - std::min(held, in_force.pages - hole_pages);
}

std::uint64_t MayHoldBytes(const MemoryPressure& pressure) {
  return std::min(pressure.limit_bytes, pressure.held_bytes + pressure.free_bytes);
}

std::uint64_t Less(std::uint64_t from, std::uint64_t by) { return from - std::min(from, by); }

// What `pressure` leaves to a plan, in pages as a choice counts them.
std::uint64_t PagesForPlan(std::uint64_t available_bytes, std::uint64_t other_pages, std::uint64_t hole_pages) {
  return Less(available_bytes / kPageBytes, other_pages) + hole_pages;
}

// How many of the slots lie on one of `blocks`, which are sorted and disjoint.
std::size_t SlotsOn(const planner::Problem& problem, const std::vector<planner::Slot>& slots,
                    const std::vector<planner::FixedBlock>& blocks) {
  const auto taken = [&](Bytes begin, Bytes end) {
    const auto behind = std::lower_bound(blocks.begin(), blocks.end(), end,
                                         [](const auto& block, Bytes at) { return block.offset < at; });
    return behind != blocks.begin() && std::prev(behind)->offset + std::prev(behind)->size_bytes > begin;
  };
  std::size_t count = 0;
  for (std::size_t i = 0; i < slots.size() && !blocks.empty(); ++i) {
    const auto on_block = [&](std::uint32_t page) { return taken(page * kPageBytes, (page + Bytes{1}) * kPageBytes); };
    const bool run = slots[i].kind == planner::Slot::Kind::kRun;
    const Bytes begin = slots[i].offset_bytes;
    const bool on = run ? taken(begin, begin + problem.requests[i].size_bytes)
                        : std::any_of(slots[i].pages.begin(), slots[i].pages.end(), on_block);
    count += on ? 1 : 0;
  }
  return count;
}

}  // namespace

std::uint64_t AvailableBytes(const MemoryPressure& pressure) {
  return std::min(Less(MayHoldBytes(pressure), pressure.refused_bytes),
                  Less(pressure.held_bytes + pressure.free_bytes, pressure.device_bytes / kShortShare));
}

std::optional<std::size_t> SmallerChoice(const planner::PlanFront& front, std::size_t in_force,
                                         std::uint64_t hole_pages, const MemoryPressure& pressure) {
  if (AvailableBytes(pressure) >= pressure.held_bytes || in_force >= front.choices.size()) return std::nullopt;
  const planner::PlanMerits& now = front.choices[in_force].merits;
  planner::PlanFront worthwhile;  // their merits alone
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < front.choices.size(); ++i) {
    if (!Worthwhile(front.choices[i].merits, now)) continue;
    worthwhile.choices.push_back({front.choices[i].merits, {}, {}});
    which.push_back(i);
  }
  const std::uint64_t others = OtherPages(now, hole_pages, pressure.held_bytes);
  const planner::PlanChoice* choice =
      planner::ChooseByPressure(worthwhile, PagesForPlan(AvailableBytes(pressure), others, hole_pages));
  if (choice == nullptr) return std::nullopt;
  // What was refused and cannot be had by any plan (a probe for all there is) is no reason to move.
  const bool driver_short = pressure.free_bytes < pressure.device_bytes / kShortShare;
  const std::uint64_t with_due = Less(MayHoldBytes(pressure), pressure.refused_bytes);
  if (!driver_short && choice->merits.pages > PagesForPlan(with_due, others, hole_pages)) return std::nullopt;
  return which[static_cast<std::size_t>(choice - worthwhile.choices.data())];
}

void PlanChooser::Begin(PlanningTask task) {
  Forget();
  if (!task.all_observed || task.members.empty()) return;
  const std::uint64_t pages = PagesTouched(task.pages, task.pages.incumbent);
  const std::uint64_t least = (planner::LowerBound(task.pages.problem) + kPageBytes - 1) / kPageBytes;
  if (least + Noticeable(pages) > pages) return;
  task_ = std::move(task);
  planned_around_ = task_->pattern.first_block;
  search_.Begin(task_->pages, kSearchTime);
}

void PlanChooser::Forget() {
  search_.Cancel();
  task_.reset();
  front_ = {};
  in_force_ = 0;
  shed_until_ = {};
  patience_ = kFirstPatience;
}

// Keeps the plan in force and those that it may have to give way to.
void PlanChooser::Receive(planner::PlanFront found) {
  const planner::PageProblem& problem = task_->pages;
  planner::PlanChoice as_served;
  as_served.merits.pages = PagesTouched(problem, problem.incumbent);
  as_served.merits.waits = planner::WaitsOf(problem.problem, problem.incumbent).size();
  as_served.slots = problem.incumbent;
  as_served.method = "as served";
  planner::PlanFront front;
  front.choices.push_back(std::move(as_served));
  for (planner::PlanChoice& choice : found.choices)
    if (Worthwhile(choice.merits, front.choices.front().merits)) front.choices.push_back(std::move(choice));
  if (front.choices.size() == 1) {
    task_.reset();
    return;
  }
  LogDebug("device " + std::to_string(memory_.ordinal()) + ": " + std::to_string(front.choices.size() - 1) +
           " plans with fewer pages are kept aside, from " +
           std::to_string(front.choices[1].merits.pages - task_->hole_pages) + " on; in force are " +
           std::to_string(front.choices[0].merits.pages - task_->hole_pages));
  front_ = std::move(front);
}

std::optional<std::string> PlanChooser::Look(Clock::time_point now) {
  if (search_.searching())
    if (std::optional<planner::PlanFront> found = search_.Take()) Receive(std::move(*found));
  if (now < shed_until_) Shed(now);
  if (now - last_look_ < (memory_.refused() ? Clock::duration(kLookAtMostEvery) : Clock::duration(kLookEvery)))
    return std::nullopt;
  last_look_ = now;
  std::optional<MemoryPressure> pressure = memory_.TakePressure();
  if (!pressure) return std::nullopt;
  if (now >= owed_until_) owed_bytes_ = 0;
  if (pressure->refused_bytes != 0) {
    owed_bytes_ = std::max(owed_bytes_, pressure->refused_bytes);
    owed_until_ = now + kOwedFor;
  }
  pressure->refused_bytes = owed_bytes_;

  if (AvailableBytes(*pressure) < pressure->held_bytes) {
    ample_since_.reset();
    GiveBack(&*pressure, now);
    if (memory_.awaiting_iteration() || now < shed_until_) return std::nullopt;
    const auto choice = SmallerChoice(front_, in_force_, task_ ? task_->hole_pages : 0, *pressure);
    return choice ? PutInForce(*choice, now) : std::nullopt;
  }
  give_back_pause_ = {};
  if (!ample_since_) ample_since_ = now;
  if (in_force_ == 0 || now - *ample_since_ < patience_ || memory_.awaiting_iteration()) return std::nullopt;
  const auto choice = FewerWaits(*pressure);
  if (!choice) return std::nullopt;
  patience_ *= 2;
  return PutInForce(*choice, now);
}

// Pages that the plan in force does not touch. Whoever needs some of them gets them again, so that this is done less
// and less often while memory stays short.
void PlanChooser::GiveBack(MemoryPressure* pressure, Clock::time_point now) {
  if (give_back_pause_ == Clock::duration{}) {
    give_back_pause_ = kFirstPause;
    next_give_back_ = now;
  }
  if (now < next_give_back_) return;
  next_give_back_ = now + give_back_pause_;
  give_back_pause_ = std::min<Clock::duration>(2 * give_back_pause_, kLongestPause);
  const std::uint64_t bytes = memory_.ReleaseUnplanned();
  pressure->held_bytes -= std::min(bytes, pressure->held_bytes);
  pressure->free_bytes += bytes;
}

// The pages that the plan before has left idle, as its last blocks end.
void PlanChooser::Shed(Clock::time_point now) {
  if (now < next_give_back_ || memory_.awaiting_iteration()) return;
  next_give_back_ = now + kShedEvery;
  const std::uint64_t bytes = memory_.ReleaseUnplanned();
  if (bytes == 0 && shed_bytes_ != 0) shed_until_ = {};
  shed_bytes_ += bytes;
}

// A plan that makes streams wait less, for which there is room to spare.
std::optional<std::size_t> PlanChooser::FewerWaits(const MemoryPressure& pressure) const {
  const planner::PlanMerits& now = front_.choices[in_force_].merits;
  const std::uint64_t others = OtherPages(now, task_->hole_pages, pressure.held_bytes);
  const std::uint64_t pages = PagesForPlan(AvailableBytes(pressure), others, task_->hole_pages);
  const planner::PlanChoice* choice = planner::ChooseByPressure(front_, Less(pages, 4 * Noticeable(pages)));
  if (choice == nullptr || choice->merits.waits >= now.waits) return std::nullopt;
  return static_cast<std::size_t>(choice - front_.choices.data());
}

// Blocks that the program has made since, to stay: they were not planned around.
std::vector<planner::FixedBlock> PlanChooser::NewBlocks(std::uint64_t before) const {
  std::vector<planner::FixedBlock> fixed;
  for (const DeviceMemory::LiveBlock& block : memory_.LiveBlocks())
    if (block.info.number >= planned_around_ && block.info.number < before)
      AppendRuns(block.place, block.info.size_bytes, &fixed);
  const std::vector<planner::FixedBlock>& known = task_->pages.problem.fixed;
  std::erase_if(fixed, [&](const planner::FixedBlock& block) {
    return std::any_of(known.begin(), known.end(), [&](const auto& other) { return other.offset == block.offset; });
  });
  std::sort(fixed.begin(), fixed.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  return fixed;
}

// The order between streams that `slots` need.
std::vector<SlotOrder> PlanChooser::OrderOf(const std::vector<planner::Slot>& slots) const {
  std::vector<SlotOrder> order = task_->order;
  for (const planner::SlotWait& wait : planner::WaitsOf(task_->pages.problem, slots)) {
    order.resize(task_->members.size());
    order[wait.request].waits = true;
    order[wait.behind].waited_for = true;
  }
  return order;
}

// Begins again around `blocks`, which lie where too many slots of a choice do.
void PlanChooser::SearchAround(std::vector<planner::FixedBlock> blocks) {
  task_->order = OrderOf(front_.choices[in_force_].slots);
  task_->pages.incumbent = front_.choices[in_force_].slots;
  std::vector<planner::FixedBlock>& fixed = task_->pages.problem.fixed;
  fixed.insert(fixed.end(), blocks.begin(), blocks.end());
  front_ = {};
  in_force_ = 0;
  search_.Begin(task_->pages, kSearchTime);
}

std::optional<std::string> PlanChooser::PutInForce(std::size_t choice, Clock::time_point now) {
  const planner::PlanChoice& chosen = front_.choices[choice];
  const MemoryCounters counters = memory_.Counters();
  const std::uint64_t next_number = counters.planned_requests + counters.online_requests + 1;
  const std::uint64_t settled = SettledBefore(next_number, task_->pattern.requests.size());
  std::vector<planner::FixedBlock> blocks = NewBlocks(settled);
  if (SlotsOn(task_->pages.problem, chosen.slots, blocks) * kFewSlots > chosen.slots.size()) {
    planned_around_ = settled;
    SearchAround(std::move(blocks));
    return std::nullopt;
  }
  std::vector<SlotOrder> order = OrderOf(chosen.slots);
  std::shared_ptr<PlanInForce> plan = PlanOf(*task_, chosen.slots, order);
  plan->budget_bytes = (chosen.merits.pages - task_->hole_pages) * kPageBytes;
  if (!memory_.Install(std::move(plan), PlanFollower::When::kNextIteration)) {
    front_.choices.erase(front_.choices.begin() + static_cast<std::ptrdiff_t>(choice));  // never the one in force
    if (choice < in_force_) --in_force_;
    return std::nullopt;
  }
  const auto pages_of = [&](std::size_t which) {
    return std::to_string(front_.choices[which].merits.pages - task_->hole_pages);
  };
  const bool smaller = chosen.merits.pages < front_.choices[in_force_].merits.pages;
  LogInfo("device " + std::to_string(memory_.ordinal()) + ": memory is " + (smaller ? "short" : "ample again") +
          ": from the next iteration on the plan with " + pages_of(choice) + " pages instead of " +
          pages_of(in_force_) + ", " + std::to_string(chosen.merits.handles) + " mapped for it");
  in_force_ = choice;
  ++switches_;
  if (smaller) {
    shed_until_ = now + kShedFor;
    shed_bytes_ = 0;
    next_give_back_ = now;
  }
  return chosen.method;
}

}  // namespace stalloc::runtime
