#include "runtime/plan_keeper.h"

#include "planner/plan_file.h"
#include "runtime/plan_content.h"

namespace stalloc::runtime {

namespace {

// Files for plans of one content whose lifetimes are not alike; the last is for all the rest.
constexpr std::uint64_t kVariants = 8;

}  // namespace

void PlanKeeper::GoBy(const std::string& path) {
  if (own_ == path) return;
  if (made_) DeletePlan(own_, *made_);
  own_ = path;
  started_from_ = false;
  made_.reset();
}

void PlanKeeper::StartFrom(const std::string& path) {
  GoBy(path);
  started_from_ = true;
}

void PlanKeeper::Share(const Place& place) {
  GoBy(place.path);
  NoteUsed();
}

PlanKeeper::Place PlanKeeper::PlaceFor(const planner::Plan& plan) const {
  using Holds = Place::Holds;
  if (shelf_.folder.empty()) return {shelf_.file, Holds::kToBeReplaced};
  const std::uint64_t content = ContentKey(plan);
  for (std::uint64_t variant = 0; variant < kVariants; ++variant) {
    const std::string path = PlanPath(shelf_, content + variant);
    if (!StateOf(path)) return {path, Holds::kNothing};
    const auto there = planner::ReadPlanFile(path);
    if (!there) return {path, Holds::kToBeReplaced};  // damaged, or of another version
    if (!AreAlike(*there, plan)) continue;
    if (path != own_) return {path, Holds::kAnother};
    return {path, started_from_ ? Holds::kToBeReplaced : made_ ? Holds::kOwn : Holds::kAnother};
  }
  return {PlanPath(shelf_, content + kVariants - 1), Holds::kToBeReplaced};
}

std::optional<planner::FileError> PlanKeeper::Keep(const Place& place, const planner::Plan& plan, bool* shared) {
  const bool replace = place.holds == Place::Holds::kToBeReplaced;
  *shared = false;
  if (auto error = KeepPlan(place.path, plan, shelf_.cache_bytes, replace)) {
    *shared = !replace && StateOf(place.path).has_value();
    if (!*shared) return error;
    Share(place);
    return std::nullopt;
  }
  GoBy(place.path);
  started_from_ = false;
  // A file that the user has named is this process's own.
  if (!replace || shelf_.folder.empty()) made_ = StateOf(place.path);
  return std::nullopt;
}

}  // namespace stalloc::runtime
