// PlanKeeper: which file of the plan cache is this process's own for one device, as it learns more.
//
// A plan whose content is kept already, by another rank or an earlier run, is not made again: the file is shared. Only
// the plan that this process started from, and found wanting, is made anew, and that by putting a whole file in its
// place, which serves the others as well. A process that goes over to a plan of another content leaves the one before
// to those who may share it. It is deleted only where this process has made it and nobody has used it since; otherwise
// it goes when it has not been used for long.
//
// On the learner's thread; reads and writes files, without any lock: see plan_cache.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "planner/plan.h"
#include "planner/result.h"
#include "runtime/learning/plan_cache.h"

namespace stalloc::runtime {

class PlanKeeper {
 public:
  explicit PlanKeeper(PlanShelf shelf) : shelf_(std::move(shelf)) {}

  const PlanShelf& shelf() const { return shelf_; }

  // This process starts from the plan in this file ...
  void StartFrom(const std::string& path);
  // ... and it does well.
  void NoteUsed() noexcept { NotePlanUsed(own_); }

  // What this process has made did no good: it is deleted, unless somebody uses it.
  void Withdraw() { GoBy({}); }

  // Where a plan of such a content belongs (its slots do not matter), and what lies there.
  struct Place {
    enum class Holds : std::uint8_t {
      kNothing,
      kToBeReplaced,
      kOwn,      // as good a plan, that this process has made
      kAnother,  // as good a plan, that another has made
    };
    std::string path;
    Holds holds = Holds::kNothing;
  };
  Place PlaceFor(const planner::Plan& plan) const;

  // This process goes by the plan that another has made there.
  void Share(const Place& place);

  // Writes the plan there. Where another process was quicker, its plan is shared, and `*shared` set.
  std::optional<planner::FileError> Keep(const Place& place, const planner::Plan& plan, bool* shared);

 private:
  void GoBy(const std::string& path);
  Place NamedPlaceFor(const planner::Plan& plan) const;

  PlanShelf shelf_;
  std::string own_;                    // the file of the plan that this process uses or has made; empty: none yet
  bool started_from_ = false;          // own_, and has not written it anew
  std::optional<PlanFileState> made_;  // if this process made the file: as it was then
};

}  // namespace stalloc::runtime
