// A plan on disk. Any thread; may allocate; throws nothing but bad_alloc.
//
// plan_file.cpp describes the format. A file that is truncated, foreign, damaged or hostile is refused with its name,
// the place and the reason; nothing of it is used.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/plan.h"
#include "planner/result.h"

namespace stalloc::planner {

// First bytes of every plan file.
inline constexpr char kPlanFileMagic[8] = {'s', 't', 'a', 'l', 'l', 'o', 'c', 'P'};

// The file's contents, to be kept by other means than WritePlanFile.
std::vector<std::byte> EncodePlan(const Plan& plan);

// `name` stands in errors. Checked besides the format: lifetimes and slots of planned requests make sense (a slot has
// as many pages as its size needs, nothing overflows, begin lies in the period). Not checked: that slots do not
// overlap.
Result<Plan> DecodePlan(std::span<const std::byte> contents, const std::string& name);

// The file is there whole or not at all, also after a crash. nullopt: done.
std::optional<FileError> WritePlanFile(const std::string& path, const Plan& plan, bool overwrite = true);
Result<Plan> ReadPlanFile(const std::string& path);

}  // namespace stalloc::planner
