// Learner: watches one device's requests, finds the iteration, has it planned, and puts the plan in force.
//
// States: watching (every request is put down; the first plan may come into force, and be replaced by that of a longer
// period), settled (the plan knows nearly every request; nothing is put down, and the match rate is looked at now and
// then), watching again when the program has drifted away from its plan, which stays until a better one is made.
//
// Step is called from one thread at a time: the background thread of a served process, or whoever replays a trace.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan.h"
#include "runtime/device_memory.h"
#include "runtime/plan_maker.h"
#include "runtime/recurrence.h"

namespace stalloc::runtime {

class Learner {
 public:
  struct Options {
    bool planning = true;
    int deadline_ms = 500;      // for one planning run
    std::uint64_t program = 0;  // fingerprint, written into kept plans
    std::string plan_path;      // where the plan is kept; empty: nowhere
    std::string device_name;
  };

  Learner(DeviceMemory& memory, Options options);

  // Starts from a kept plan, before the first request. A plan made for another program or device is refused with a
  // reason and nothing changes.
  std::optional<std::string> StartFrom(const planner::Plan& plan);

  // Looks at what has been seen since the last call; may plan. Returns true if a plan was put in force.
  bool Step();

  std::uint64_t plans_made() const { return plans_made_; }

 private:
  bool Watch();
  bool Credible(const Pattern& pattern) const;
  bool Adopt(const Pattern& pattern);
  void Check();
  void MarkChecked();
  double MatchedShare();
  void Forget();

  DeviceMemory& memory_;
  const Options options_;
  std::optional<IterationFinder> finder_;
  std::vector<DeviceMemory::Seen> batch_;
  std::vector<Observation> observations_;
  SeenBlocks blocks_;
  std::uint64_t seen_ = 0;            // observations since watching began
  std::uint64_t next_look_ = 0;       // look for the iteration when `seen_` gets there
  std::uint64_t plans_in_force_ = 0;  // put in force so far, kept ones included
  bool awaiting_ = false;             // the last plan adopted had not come into force yet
  std::int64_t period_ = 0;           // of the plan in force
  std::uint64_t planned_requests_in_pattern_ = 0;
  std::uint64_t requests_since_plan_ = 0;  // as of the last MatchedShare
  std::uint64_t checked_requests_ = 0;
  std::uint64_t checked_matched_ = 0;
  int poor_checks_ = 0;
  std::uint64_t plans_made_ = 0;
};

}  // namespace stalloc::runtime
