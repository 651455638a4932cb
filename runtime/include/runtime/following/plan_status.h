// PlanStatus: what has become of learning on one device, for the summary and the statistics.
#pragma once

#include <cstdint>
#include <string>

namespace stalloc::runtime {

struct PlanStatus {
  enum class State : std::uint8_t {
    kOff,        // STALLOC_PLANNING=0
    kWatching,   // looking for the iteration; there is no plan
    kWaiting,    // a plan is made, which the next iteration puts in force
    kOnTrial,    // a plan is in force and watched
    kSettled,    // a plan is in force and does well
    kLeftAlone,  // no plan: served online
  };
  enum class Reason : std::uint8_t { kNone, kNoIteration, kIterationsDiffer, kNoHostMemory };

  State state = State::kWatching;
  Reason reason = Reason::kNone;  // why there is no plan, as far as is known
  // What became of the plans of earlier runs: not looked for, none there, one used from the first request on, none fit.
  enum class Kept : std::uint8_t { kNotLookedFor, kNone, kUsed, kRefused };
  Kept kept = Kept::kNotLookedFor;
  std::string file{};   // where the plan is kept that this process started from, made or shares; empty: nowhere
  bool shared = false;  // another rank made that
  // Of the newest plan, if there has been one:
  std::string not_kept{};              // why it was not kept, where it would not have served the next run
  std::string method{};                // how its slots were found
  std::int64_t period = 0;             // of an iteration, in requests and frees
  std::uint64_t requests = 0;          // of an iteration
  std::uint64_t planned_requests = 0;  // those with a slot
  std::uint64_t choices = 0;           // plans to choose from by how short memory is, it among them; 0: just the one

  std::uint64_t pressure_switches = 0;  // how often another of the choices was put in force, since the beginning
};

}  // namespace stalloc::runtime
