// The plan cache: the folder in which plans are kept from run to run, one file for each thing that a program does,
//   <program, 16 hex digits>.<device's name>.<content, 16 hex digits>.plan
//
// The content is what plan_content.h makes of the iteration, and not whose it is: ranks that behave equally share one
// file, and those that differ (stages of a pipeline) have files of their own, as runs of different batch sizes have.
// Which of them is a process's own its first requests tell (plan_follower_candidates.cpp).
//
// Any number of processes of any number of hosts use the folder at once. Nothing is locked and nothing is changed in
// place: a plan is written beside its place and renamed into it, so that of several writers one wins, whole. The time
// of its last use is its modification time. Whoever has written one deletes those used least recently until all fit,
// and until each program has no more than it can choose from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan.h"
#include "planner/result.h"

namespace stalloc::runtime {

struct Settings;

// So many plans a program and device may have. Each costs milliseconds when the program starts.
inline constexpr std::size_t kMostPlansOfAProgram = 32;

// Where the plans of one device of this process are kept: in the one file that the settings name, or in the plan cache.
//
// A name that is the same for several ranks (without %r) is the file of one of them and of those that do the same; a
// rank that differs has "<file>.rank<its number>".
struct PlanShelf {
  std::string file{};             // the file; otherwise empty
  std::string own_file{};         // this rank's where the file is another's; empty where there are no ranks
  std::string folder{};           // the plan cache's; otherwise empty
  std::string stem{};             // of the names there: "<program>.<device's name>."
  std::uint64_t cache_bytes = 0;  // that the plan cache may hold

  bool empty() const { return file.empty() && folder.empty(); }  // nothing is kept
};
PlanShelf ShelfOf(const Settings& settings, std::uint64_t program, const std::string& device_name, int ordinal);

// The file of a plan with this content.
std::string PlanPath(const PlanShelf& shelf, std::uint64_t content);

// The files that may hold this process's plan, used most recently first; at most kMostPlansOfAProgram.
std::vector<std::string> KeptPlans(const PlanShelf& shelf);

// Makes the folder of the cache, with those above it, for this user alone, as the XDG rules have it. What goes wrong
// shows when something is written there.
void MakeFolder(const std::string& folder);

// The plan at `path` was used now. Errors do not matter: it may be deleted sooner.
void NotePlanUsed(const std::string& path) noexcept;

// Writes `plan` to `path`. `cache_bytes` is not 0 if that lies in the plan cache: its folder is then made where it is
// not there, for this user alone, and trimmed to so many bytes. A plan that is there is replaced only if `overwrite`;
// outside the cache, where a person has named the file, nothing is but a plan. nullopt: done.
std::optional<planner::FileError> KeepPlan(const std::string& path, const planner::Plan& plan,
                                           std::uint64_t cache_bytes, bool overwrite = true);

// Deletes the plans used least recently until those in `folder` hold at most `limit_bytes` and no program has more than
// kMostPlansOfAProgram for one kind of device, but none that was used in the last minutes, and nothing that is not a
// plan of the cache by its name and by its first bytes. Remains of writers that were killed go too, after a day. A file
// that another process puts in the place of one to be deleted stays. Returns the bytes deleted.
std::uint64_t TrimPlanCache(const std::string& folder, std::uint64_t limit_bytes);

// A file as it was at one moment: another that was put in its place, or one that somebody has used since, is not it.
struct PlanFileState {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t used_s = 0;
  std::int64_t used_ns = 0;

  friend bool operator==(const PlanFileState&, const PlanFileState&) = default;
};
std::optional<PlanFileState> StateOf(const std::string& path);  // nullopt: there is no such file

// Deletes the file if it still is in this state. True if it is gone by that.
bool DeletePlan(const std::string& path, const PlanFileState& state);

}  // namespace stalloc::runtime
