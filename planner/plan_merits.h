// Measures plans of one problem one after another; MeritsOf for a single one. Private to planner/; one object a thread.
#pragma once

#include <vector>

#include "instance.h"
#include "page_packer.h"
#include "planner/plan_front.h"

namespace stalloc::planner {

class PlanMeter {
 public:
  explicit PlanMeter(const PageProblem& problem);  // which must outlive this
  PlanMeter(const PlanMeter&) = delete;
  PlanMeter& operator=(const PlanMeter&) = delete;

  PlanMerits Measure(const std::vector<Slot>& slots);

 private:
  double Headroom(const std::vector<Slot>& slots, Bytes height_bytes);

  const PageProblem& problem_;
  const Instance instance_;  // in which memory is free as soon as a request ends
  PagePacker packer_;
};

}  // namespace stalloc::planner
