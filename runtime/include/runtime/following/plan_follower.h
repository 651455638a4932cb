// PlanFollower: which request of which plan is this one, and where is it to lie?
//
// Follows a device's requests along its plans: the one in force; the next, which takes over where its first iteration
// begins, and until then has slots for what the one in force does not know; those of other kinds of iteration, which
// take over again by themselves (plan_follower_kinds.cpp); and, when a process starts, those that earlier runs have
// kept, one of which is its own (plan_follower_candidates.cpp).
//
// The seam: DeviceMemory asks with a request and is answered with a proposal, which is advice and may be refused; it
// tells what became of a request where that matters. The follower takes no memory, calls no driver and holds no lock of
// its own. All of it is called under the device's lock, but for WantsCallSite, which looks at no plan; Ask does not
// allocate. A plan that nobody follows any more is handed out by TakeRetired, to be freed without the lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/iteration_log.h"
#include "runtime/base/memory_figures.h"
#include "runtime/following/match_trust.h"
#include "runtime/following/plan_in_force.h"
#include "runtime/pages/free_space.h"
#include "runtime/pages/page_store.h"
#include "runtime/pages/view_table.h"

namespace stalloc::runtime {

class PlanFollower {
 public:
  using Plans = std::vector<std::shared_ptr<PlanInForce>>;

  // All of them outlive this. `counters` and `cost` are read where an iteration ends.
  PlanFollower(const FreeSpace& space, ViewTable& views, const MemoryCounters& counters, const PageStore::Cost& cost)
      : space_(space), views_(views), memory_counters_(counters), cost_(cost) {
    retired_.reserve(kMostRetired);
  }

  // --- Requests -----------------------------------------------------------------------------------------------------
  struct Request {
    std::uint64_t size_bytes = 0;
    Granule granules = 0;
    std::uint64_t call_site = 0;  // 0: not taken
  };
  // Where the plan would have a request lie. `place` nullptr: it says nothing.
  struct Proposal {
    BlockPlace* place = nullptr;
    std::span<const Run> rooms{};  // instead of a place; see PlanInForce
    std::uint64_t call_site = 0;   // the request's, or the plan's where that came without one
    std::int32_t scaled = -1;      // index of its ScaledSlot, in the plan
    std::uint32_t takeover = 0;    // that came into force with this takeover
    // Where `place` is a slot of a plan whose sizes do not scale: that plan, and which of its requests this is.
    const PlanInForce* plan = nullptr;
    std::int32_t request = -1;
    bool may_wait = false;    // for another stream
    bool is_slot = false;     // `place` is one of the iteration's
    bool waited_for = false;  // see SlotOrder
  };

  // Asked without the lock before Ask: must the call site be taken for a request of this size? The answer is a hint,
  // Ask decides.
  bool WantsCallSite(std::uint64_t size_bytes) const noexcept {
    const std::uint64_t expected = expected_.load(std::memory_order_relaxed);
    if (expected == size_bytes) return false;  // its key: streams are not told apart
    return expected != kNoPlan || size_bytes >= kLargeBytes;
  }
  // Requests from this size on are few, and are what an out-of-memory report is about: their call sites are always
  // taken.
  static constexpr std::uint64_t kLargeBytes = std::uint64_t{16} << 20;

  // The request's place in the plan, if it has one. Moves the plans on: every request is asked for once.
  Proposal Ask(const Request& request);
  // The slot that was proposed is taken.
  void NoteBusy() noexcept { ++counters_.slot_busy; }
  // A request with a ScaledSlot was served elsewhere. The lock may have been released since Ask, and another plan be in
  // force by now.
  void NoteServedOnline(const Proposal& proposal, ViewIndex view, Granule begin) noexcept;

  // --- What the plan in force asks of requests that are served elsewhere --------------------------------------------
  // They are looked for from here on first, so that they are not in the way of those with a slot.
  Granule online_from() const noexcept { return plan_ ? plan_->online_from : 0; }
  // What it holds in all: so far slots may be mapped.
  std::uint64_t budget_bytes() const noexcept { return plan_ ? plan_->budget_bytes : 0; }
  // The program still makes what it will keep, as an earlier run did; of that, some is still to come.
  bool settling() const noexcept { return plan_ && plan_->settling(); }
  // By the plan in force or the next one.
  bool AnySettling() const noexcept { return settling() || (next_plan_ && next_plan_->settling()); }
  // Whether either of them has a slot, or a place of what is kept, in this page.
  bool Touches(PageNumber page) const noexcept;

  // --- Plans --------------------------------------------------------------------------------------------------------
  // Puts the plan in force: at once, or where the next iteration begins. nullptr drops the one that is. Ends a choice.
  // What its slots need of views is mapped and pinned.
  enum class When : bool { kNow, kNextIteration };
  void Install(std::shared_ptr<PlanInForce> plan, When when);
  bool awaiting_iteration() const noexcept { return next_plan_ != nullptr; }
  // A view has gone. The plans' slots in it are mapped again when they are next asked for.
  void Forget(ViewIndex view) noexcept;

  // Before the first request: puts the first of these plans in force, which earlier runs have kept. Where there are
  // several, the program's first requests tell which of them is its own.
  void StartFrom(Plans plans);
  // Which of them is in force, and whether that is beyond doubt. nullopt: it is over, or there was none.
  struct Choice {
    std::size_t candidate = 0;
    bool settled = false;
    std::uint64_t requests = 0;  // so far
    std::uint64_t unknown = 0;   // of these, to that plan
    bool departed = false;       // the program does otherwise than any of them says: none is in force any more
  };
  std::optional<Choice> choice() const;
  // The one in force stays, the others are retired. There is room for them.
  void EndChoice() noexcept;

  // The plan in force, if its sizes scale and it says what it was made from, with what has become of its slots.
  struct Scaled {
    std::shared_ptr<const PlanInForce> plan;  // but what the serving path changes: `matcher`, views, `scaled`
    std::vector<ScaledSlot> slots;            // plan->scaled as it is now
    std::uint64_t outgrown_in = 0;            // see PlanInForce
    std::uint64_t settled_before = 0;         // blocks that live and have a lower number are there to stay
  };
  std::optional<Scaled> ScaledPlan() const;
  // The same once an iteration is over in which some requests were larger than any of their like before. It is said
  // once of each iteration, and less and less often of one plan after the other.
  std::optional<Scaled> TakeOutgrown();

  // The plan in force, if there is one, is kept when another takes over: the program may come back to it.
  void KeepPlanInForce();
  // What is in force; `returns` counts the kept plans that took over.
  struct InForce {
    std::uint64_t returns = 0;
    std::uint64_t requests = 0;  // of an iteration; 0: no plan
    std::int64_t period = 0;
    bool scales = false;  // ScaledPlan has something to say
    // The most requests that one of the program's last two iterations had; 0: two have not been seen yet.
    std::uint64_t requests_made = 0;
  };
  InForce in_force() const;

  // Hands out the retired plans, if there are any. `room` is empty, with room for kMostRetired: so many are retired at
  // most while requests are served, where nothing may be allocated. A choice that ends has room of its own.
  static constexpr std::size_t kMostRetired = 8;
  void TakeRetired(Plans* room) noexcept {
    if (!retired_.empty()) retired_.swap(*room);
  }
  // How many there have been. A proposal made before the last of them may point into a plan that is gone.
  std::uint64_t retirements() const noexcept { return retirements_; }

  const PlanCounters& counters() const noexcept { return counters_; }
  const IterationLog& iterations() const noexcept { return iterations_; }

 private:
  Proposal AskPlanInForce(const Request& request);
  Proposal AskNextPlan(const Request& request);
  Proposal FromSlot(std::int32_t index, const Request& request);
  static void ProposeSlot(PlanInForce& plan, std::int32_t index, SlotOrder order, Proposal* proposal) noexcept;
  Proposal FromPersistent(BlockPlace* place, const Request& request) noexcept;
  void ProposeKeptPlace(const Request& request, Proposal* proposal);
  Proposal FromCandidates(const Request& request);
  struct Candidate;
  void AskCandidate(Candidate* candidate, const Request& request);
  static void CompareBeginning(Candidate* candidate, const Request& request) noexcept;
  static bool BeginsAlike(const Candidate& candidate) noexcept;
  static std::uint32_t Surprises(const Candidate& candidate);
  static bool Departs(const Candidate& candidate);
  std::optional<std::size_t> BestCandidate() const;
  static BlockPlace* PersistentPlace(PlanInForce& plan, const Request& request);
  bool HasRoom(std::size_t index, const Request& request) noexcept;
  std::int32_t FollowOtherKinds(std::int32_t index, const Request& request);
  void NoteIteration() noexcept;
  void PutInForce(std::shared_ptr<PlanInForce> plan);
  void PutAside(std::shared_ptr<PlanInForce> plan);
  void Retire(std::shared_ptr<PlanInForce> plan);
  void Discard(std::shared_ptr<PlanInForce> plan);
  void Pin(const PlanInForce& plan, bool pinned);
  void PinAll();
  // What WantsCallSite goes by from here on. While what an earlier run kept is still to come, every call site is
  // wanted.
  void PublishExpected(const PlanInForce& plan) noexcept {
    expected_.store(plan.settling() ? Matcher::kNoKey : plan.matcher.ExpectedKey(), std::memory_order_relaxed);
  }
  // Of the next allocation on this device.
  std::uint64_t NextNumber() const noexcept {
    return memory_counters_.planned_requests + memory_counters_.online_requests + 1;
  }

  const FreeSpace& space_;
  ViewTable& views_;
  const MemoryCounters& memory_counters_;
  const PageStore::Cost& cost_;
  PlanCounters counters_;
  IterationLog iterations_;

  std::shared_ptr<PlanInForce> plan_;
  static constexpr std::uint64_t kNoPlan = Matcher::kNoKey - 2;  // no key either
  std::atomic<std::uint64_t> expected_{kNoPlan};                 // the plan in force's ExpectedKey, for WantsCallSite
  std::uint64_t iterations_seen_ = 0;       // by the matcher of the plan in force, as far as is noted
  std::uint64_t took_over_at_ = 0;          // the same when it came into force
  std::uint32_t takeovers_ = 0;             // plans that came into force
  MatchTrust trust_;                        // in the plan in force
  std::shared_ptr<PlanInForce> next_plan_;  // matched along, until its first iteration begins
  MatchTrust next_trust_;                   // in that one
  Plans retired_;                           // not yet freed
  std::uint64_t retirements_ = 0;
  struct OtherKind {
    std::shared_ptr<PlanInForce> plan;
    std::uint32_t lead = 0;  // requests lately that it knew and the plan in force did not
  };
  std::vector<OtherKind> other_kinds_;  // in the order in which they were last in force
  std::uint32_t astray_ = 0;            // falls with what the plan in force knows and rises with what it does not
  std::uint32_t without_plan_ = 0;      // requests followed while there was no plan in force
  struct Candidate {
    std::shared_ptr<PlanInForce> plan;
    bool left = false;             // asked no more: it knew too little, or is another program's
    std::size_t begun = 0;         // of a guess: so many of its run's first large requests were this program's too ...
    bool began_otherwise = false;  // ... and the next was not
    std::uint32_t unknown = 0;     // requests that it did not know
    // Of large ones, since the first block that it knew to stay, or since the first that its run had not made.
    std::uint64_t unknown_granules = 0;
    std::uint64_t known_granules = 0;     // likewise
    BlockPlace* persistent = nullptr;     // of the request at hand: its place among what stays ...
    std::int32_t index = Matcher::kNone;  // ... or which of the iteration's it is
  };
  std::vector<Candidate> candidates_;  // while it is open which of them stays in force
  std::size_t chosen_ = 0;             // of them, the one in force, or that was last
};

}  // namespace stalloc::runtime
