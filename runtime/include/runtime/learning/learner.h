// Learner: watches one device's requests, finds the iteration, has it planned, and puts the plan in force.
//
// States: watching (every request is put down; a plan may come into force and is then on trial), settled (the plan has
// done well; no iteration is looked for, and what it serves of the requests is looked at now and then), left alone (no
// iteration was found, none worth planning, or blocks are sorted by whether they last; watched again when that has
// ended and the program has gone on as long as it was watched). A settled program that drifts away from its plan is
// watched again; the plan stays until a better one is made. What was in vain is tried again after twice as long.
//
// Step is called from one thread at a time: the background thread of a served process, or whoever replays a trace.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/device_memory.h"
#include "runtime/following/plan_status.h"
#include "runtime/learning/plan_choice.h"
#include "runtime/learning/plan_keeper.h"
#include "runtime/learning/plan_maker.h"
#include "runtime/recurrence/recurrence.h"

namespace stalloc::runtime {

class Learner {
 public:
  struct Options {
    bool planning = true;
    int deadline_ms = 40;             // for this run's plan, which the next iteration waits for; see MakePlan
    int kept_deadline_ms = 500;       // for the next run's
    std::uint64_t program = 0;        // fingerprint, written into kept plans
    std::uint64_t configuration = 0;  // likewise; by plans of another one it goes as far as it does the same
    PlanShelf shelf;                  // where plans are kept
    std::string device_name;
    std::optional<int> rank;  // of this process
  };

  Learner(DeviceMemory& memory, Options options);

  // Starts from the plans that are kept for such a program, before the first request. Those made for another program or
  // device, and files that cannot be read, are left aside with a line in the log.
  void StartFromKept();

  // Looks at what has been seen since the last call; may plan. Returns true if a plan was put in force.
  bool Step(PlanChooser::Clock::time_point now = PlanChooser::Clock::now());

  // The process ends: nothing is looked for any more. Any thread; does not wait.
  void End() noexcept { chooser_.End(); }

  // For want of host memory or of a thread nothing is put down from here on, and a Step does nothing. The plan in force
  // stays, and where it was open which of the kept ones that is, it is not any more.
  void GiveUp() noexcept;

  // What has become of it so far. Any thread.
  PlanStatus status() const;

 private:
  // See unplannable_limit_ and checks_to_renew_, which begin with these.
  static constexpr int kUnplannable = 4;
  static constexpr int kPoorChecks = 3;

  struct Counts {
    std::uint64_t requests = 0;
    std::uint64_t matched = 0;  // known to the plan
    std::uint64_t busy = 0;     // known, but the slot was taken
    std::uint64_t planned = 0;  // served in their slot
  };

  bool Watch();
  bool TakeSeen();
  void NoteBeginning();
  void Rest();
  void WatchAgain();
  bool Credible(const Pattern& pattern) const;
  bool Plannable(const Pattern& pattern) const;
  bool GivesWayTo(const Pattern& pattern) const;
  bool Adopt(const Pattern& pattern);
  bool Judge();
  bool OnlyResembles() const;
  void Settle();
  bool Renew();
  void NoteReturn();
  void LookAtMemory(PlanChooser::Clock::time_point now);
  void FollowChoice();
  void TellOfKept();
  void GiveUpKept(const std::string& reason);
  static constexpr char kNobodyKnows[] = "no kept plan knows what the program does";
  void WithdrawKept();
  void Keep(const Pattern& pattern);
  bool Dissolving(const Pattern& pattern, const planner::Plan& outline) const;
  void Drop(const char* reason);
  void LeaveAlone(PlanStatus::Reason reason);
  void Check(PlanChooser::Clock::time_point now);
  void BeginTrial(std::int64_t period, std::uint64_t requests);
  void BeginWindow();
  Counts Now() const;
  Counts Window() const;
  void StopObserving() noexcept;
  void Forget();
  // Changes what status() says.
  template <typename Change>
  void Tell(Change change) {
    std::lock_guard lock(status_mutex_);
    change(status_);
  }

  DeviceMemory& memory_;
  const Options options_;
  PlanKeeper keeper_;
  std::optional<IterationFinder> finder_;
  bool given_up_ = false;
  bool watching_ = true;  // for iterations; requests are put down for longer, see kBeginning
  std::vector<SeenLog::Entry> batch_;
  std::vector<Observation> observations_;
  SeenBlocks blocks_;
  SeenOrder order_;
  SeenBeginning beginning_;
  std::uint64_t begun_by_ = ~std::uint64_t{0};  // after so many requests the first iteration that was kept was over
  std::int64_t now_ = 0;                        // observations so far
  std::uint64_t seen_ = 0;                      // observations since watching began
  std::uint64_t next_look_ = 0;                 // look for the iteration when `seen_` gets there
  std::int64_t period_ = 0;                     // of the plan in force
  std::uint64_t pattern_requests_ = 0;          // of the plan in force, an iteration; 0: there is none
  bool awaiting_ = false;                       // the last plan adopted had not come into force yet
  bool doing_well_ = false;
  double known_share_ = 0;    // of the last window's requests, whether or not their slots were free
  double busy_share_ = 0;     // of them all, known, but their slots were taken
  bool from_disk_ = false;    // the plan in force is an earlier run's
  int windows_ = 0;           // judged since the plan came into force
  int good_windows_ = 0;      // of these, the last in a row that did well
  int hopeless_windows_ = 0;  // or that served next to nothing
  int outgrown_in_vain_ = 0;  // iterations that outgrew the plan, and there is none for those sizes
  Counts window_start_;
  std::uint64_t resume_at_ = 0;  // left alone until this many requests
  int unplannable_found_ = 0;
  int unplannable_limit_ = kUnplannable;  // so many, and the program is left alone for a while
  int poor_checks_ = 0;                   // in a row
  int checks_to_renew_ = kPoorChecks;     // so many, and the program is watched again
  int adopted_in_a_row_ = 0;              // plans, since one has settled or the program was left alone
  std::uint64_t watched_from_ = 0;        // requests so far when watching began, or a plan on trial last did well
  std::uint64_t pause_requests_ = 0;  // for how long it was left alone last; 0: it was not, since a plan has settled
  PlanChooser chooser_;
  std::uint64_t told_choices_ = 0;
  std::uint64_t returns_seen_ = 0;
  // A plan of an earlier run, while it is open which of them is this process's.
  struct Candidate {
    std::string path;
    std::int32_t rank = -1;
    std::int64_t period = 0;
    std::uint64_t requests = 0;
    std::uint64_t planned_requests = 0;
  };
  std::vector<Candidate> candidates_;
  std::size_t chosen_ = 0;        // of them
  std::int64_t kept_period_ = 0;  // the longest of a plan that did well: a shorter kind is not what the next run needs
  mutable std::mutex status_mutex_;
  PlanStatus status_;
};

}  // namespace stalloc::runtime
