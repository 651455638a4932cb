// The plan cache: the folder in which plans are kept from run to run, one file a program and device,
//   <program, 16 hex digits>.<device's name>.plan[.device<ordinal>]
//
// Any number of processes use it at once. A plan is written beside its place and renamed into it; the time of its last
// use is its modification time. Whoever has written one deletes those used least recently until all fit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "planner/plan.h"
#include "planner/result.h"

namespace stalloc::runtime {

struct Settings;

// Where the plan of a device is kept: the file that the settings name, or one in the plan cache. Empty: nowhere.
std::string PlanPath(const Settings& settings, std::uint64_t program, const std::string& device_name, int ordinal);

// Makes the folder of the cache, with those above it, for this user alone, as the XDG rules have it. What goes wrong
// shows when something is written there.
void MakeFolder(const std::string& folder);

// The plan at `path` was used now. Errors do not matter: it may be deleted sooner.
void NotePlanUsed(const std::string& path) noexcept;

// Writes `plan` to `path`. `cache_bytes` is not 0 if that lies in the plan cache: its folder is then made where it is
// not there, for this user alone, and trimmed to so many bytes. nullopt: done.
std::optional<planner::FileError> KeepPlan(const std::string& path, const planner::Plan& plan,
                                           std::uint64_t cache_bytes);

// Deletes the plans used least recently until those in `folder` hold at most `limit_bytes`, but none that was used in
// the last minutes, and nothing that is not a plan of the cache by its name and by its first bytes. Remains of
// writers that were killed go too, after a day. A file that another process puts in the place of one to be deleted
// stays. Returns the bytes deleted.
std::uint64_t TrimPlanCache(const std::string& folder, std::uint64_t limit_bytes);

}  // namespace stalloc::runtime
