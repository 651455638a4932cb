// Claim: memory that was taken for a request and what the driver must still do before it can be used.
//
// Made and undone under the device's lock; carried out with the driver without it, by the request's own thread.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "runtime/base/granule.h"
#include "runtime/device/memory_search.h"
#include "runtime/pages/page_store.h"

namespace stalloc::runtime {

struct Claim {
  struct NewPages {
    PageNumber first = 0;
    PageNumber count = 0;
  };
  Found where;
  Granule granules = 0;
  bool needs_driver = false;
  std::vector<std::pair<Run, Fence>> waits;  // parts whose fence the request's stream must still be ordered behind
  std::vector<NewPages> new_pages;           // whole pages, claimed to be mapped
  std::vector<Run> left_over;                // of new pages: what the block does not need
  std::size_t mapped_runs = 0;               // of new_pages, how many exist by now
  bool timed = false;                        // how long its stream stands still at the waits is measured
};

}  // namespace stalloc::runtime
