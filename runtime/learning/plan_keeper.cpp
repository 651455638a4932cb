#include "runtime/learning/plan_keeper.h"

#include <unistd.h>

#include "planner/plan_file.h"
#include "runtime/learning/plan_content.h"
#include "runtime/learning/plan_maker.h"

namespace stalloc::runtime {

namespace {

// Nobody starts from such a file.
bool Useless(const planner::Result<planner::Plan>& plan) { return !plan || !ExcessOf(*plan).empty(); }

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

// A rank writes over what itself or no rank has made. What another has made stays.
PlanKeeper::Place PlanKeeper::NamedPlaceFor(const planner::Plan& plan) const {
  using Holds = Place::Holds;
  if (shelf_.own_file.empty()) return {shelf_.file, Holds::kToBeReplaced};
  if (::access(shelf_.file.c_str(), F_OK) != 0) return {shelf_.file, Holds::kNothing};
  const auto there = planner::ReadPlanFile(shelf_.file);
  if (Useless(there) || there->rank < 0 || there->rank == plan.rank) return {shelf_.file, Holds::kToBeReplaced};
  if (ContentKey(*there) != ContentKey(plan) || !AreAlike(*there, plan)) return {shelf_.own_file, Holds::kToBeReplaced};
  const bool wanting = own_ == shelf_.file && started_from_;
  return {shelf_.file, wanting ? Holds::kToBeReplaced : Holds::kAnother};
}

PlanKeeper::Place PlanKeeper::PlaceFor(const planner::Plan& plan) const {
  using Holds = Place::Holds;
  if (shelf_.folder.empty()) return NamedPlaceFor(plan);
  const std::uint64_t content = ContentKey(plan);
  for (std::uint64_t variant = 0; variant < kVariants; ++variant) {
    const std::string path = PlanPath(shelf_, content + variant);
    if (!StateOf(path)) return {path, Holds::kNothing};
    const auto there = planner::ReadPlanFile(path);
    if (Useless(there)) return {path, Holds::kToBeReplaced};  // damaged, of another version, or with too many pages
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
    if (replace || !StateOf(place.path)) return error;
    // Its content is in the name of a file in the cache. A file that the user has named may hold anything.
    const Place now = shelf_.folder.empty() ? NamedPlaceFor(plan) : place;
    *shared = !shelf_.folder.empty() || now.holds == Place::Holds::kAnother;
    if (!*shared) return Keep({now.path, Place::Holds::kToBeReplaced}, plan, shared);
    Share(now);
    return std::nullopt;
  }
  GoBy(place.path);
  started_from_ = false;
  // A file that the user has named is this process's own.
  if (!replace || shelf_.folder.empty()) made_ = StateOf(place.path);
  return std::nullopt;
}

}  // namespace stalloc::runtime
