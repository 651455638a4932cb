// PlanChooser: which of several plans of one iteration is in force, by how short memory is.
//
// The first plan is most often "where it was served": nothing is mapped for it, and it is in force at once. Once it
// does well, others are looked for in the background (front_search.h), with the fewest pages at one end, and kept
// aside; that is done only where the plan in force touches noticeably more pages than the lower bound.
//
// Memory is looked at once a second, and at once when somebody was refused any. Short means one of two things:
//   - somebody was refused: a request of the program's beyond what this memory may hold, or a call of somebody else's
//     in this process (a library, a graph, a module) that the driver could not satisfy. What was refused is owed for
//     half a minute, for the program, a framework or a person tries again.
//   - the driver has little left, 1/64 of the device. Other processes are refused unseen; this is all that is seen.
// Then, first, idle pages that the plan does not touch are given back. Where that is not enough, a plan with fewer
// pages takes over at the next iteration: of those that fit into what may be held the one with the fewest handles to
// map, else the one with the fewest pages (planner::ChooseByPressure), but only if it saves noticeably many, if mapping
// it is in proportion to that, and if what is owed can be had by it. The pages that it leaves idle are given back.
//
// When memory is ample again the smaller plan stays: by then its handles are mapped and its blocks are where they are,
// so that going back would cost and gain nothing. The exception is a plan that makes streams wait for each other more
// often, for that costs in every iteration: it gives way after memory has been ample for a minute, after two the next
// time, and so on.
//
// On the learner's thread. Makes driver calls without any lock of the memory's.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan_front.h"
#include "runtime/device/device_memory.h"
#include "runtime/learning/plan_problem.h"
#include "runtime/pages/front_search.h"

namespace stalloc::runtime {

// The choice of `front` to take in place of front.choices[in_force] so that memory is no longer short, or less so;
// nullopt: none helps, or memory is not short. `hole_pages` of the pages that a choice counts do not exist. Pure.
std::optional<std::size_t> SmallerChoice(const planner::PlanFront& front, std::size_t in_force,
                                         std::uint64_t hole_pages, const MemoryPressure& pressure);

// What may be held while everybody has their due, pressure.refused_bytes for one; less than is held: memory is short.
std::uint64_t AvailableBytes(const MemoryPressure& pressure);

class PlanChooser {
 public:
  using Clock = std::chrono::steady_clock;

  explicit PlanChooser(DeviceMemory& memory) : memory_(memory) {}

  // The plan in force serves `task` where its incumbent says, and does well. Looks for others, if there can be any that
  // are worth it.
  void Begin(PlanningTask task);

  // Another plan is in force, or none.
  void Forget();

  // To be called every now and then; cheap while there is nothing to do. The method of the plan that was put in force,
  // if one was.
  std::optional<std::string> Look(Clock::time_point now);

  // The process ends; any thread, does not wait.
  void End() noexcept { search_.End(); }

  std::uint64_t choices() const { return front_.choices.size(); }  // the plan in force among them; 0: none was wanted
  std::uint64_t switches() const { return switches_; }
  bool searching() const { return search_.searching(); }

 private:
  void Receive(planner::PlanFront found);
  void Shed(Clock::time_point now);
  void GiveBack(MemoryPressure* pressure, Clock::time_point now);
  std::optional<std::size_t> FewerWaits(const MemoryPressure& pressure) const;
  std::optional<std::string> PutInForce(std::size_t choice, Clock::time_point now);
  std::vector<planner::FixedBlock> NewBlocks(std::uint64_t before) const;
  std::vector<SlotOrder> OrderOf(const std::vector<planner::Slot>& slots) const;
  void SearchAround(std::vector<planner::FixedBlock> blocks);

  DeviceMemory& memory_;
  FrontSearch search_;
  std::optional<PlanningTask> task_;  // while it is searched for, and while there is a choice
  planner::PlanFront front_;          // choices[0] is the plan that was in force first
  std::size_t in_force_ = 0;          // of front_
  std::uint64_t planned_around_ = 0;  // blocks numbered from here on, that stay, are not among the task's fixed ones
  std::uint64_t switches_ = 0;

  Clock::time_point last_look_{};
  std::uint64_t owed_bytes_ = 0;
  Clock::time_point owed_until_{};
  Clock::time_point shed_until_{};  // pages that the plan before has left idle are being given back
  std::uint64_t shed_bytes_ = 0;    // so far
  Clock::time_point next_give_back_{};
  Clock::duration give_back_pause_{};
  std::optional<Clock::time_point> ample_since_;
  Clock::duration patience_{};  // for so long memory must have been ample before a larger plan is taken again
};

}  // namespace stalloc::runtime
