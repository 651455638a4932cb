// The choice of plans that `stalloc plan --front` offers, and how it says so.
#pragma once

#include <string>

#include "planner/plan_front.h"
#include "tools/planning_input.h"

namespace stalloc::tools {

struct FrontAnswer {
  planner::PlanMerits online;                   // of what an allocator without a plan makes of the same requests
  planner::PlanFront front;                     // against that: its pages are held, and leaving its places is a move
  const planner::PlanChoice* chosen = nullptr;  // of the front, for the capacity; what --output writes
  double seconds = 0;
};

std::string FrontJson(const PlanningInput& input, const FrontAnswer& answer, const std::string& file);
std::string FrontText(const PlanningInput& input, const FrontAnswer& answer, const std::string& file);

}  // namespace stalloc::tools
