// What follows from the slots of a plan. Private to planner/; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/page_plan.h"

namespace stalloc::planner {

inline std::uint64_t PagesOf(Bytes bytes) { return bytes / kPageBytes + (bytes % kPageBytes != 0); }

struct SlotMeasure {
  std::uint64_t page_count = 0;  // see PagePlan
  std::uint64_t handles_to_map = 0;
  std::uint64_t changes = 0;
  Bytes height_bytes = 0;
};

SlotMeasure MeasureSlots(const PageProblem& problem, const std::vector<Slot>& slots);

}  // namespace stalloc::planner
