// SiteNames: says where the call sites of recorded requests lie in the program, so that who reads the trace sees
// functions and not numbers.
//
// A name costs the loader a search through all the symbols of a library, milliseconds in a large one; so each address
// is asked for once, and for as long as the caller has time for. Used by one thread, the recorder's; allocates and
// takes the loader's lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "planner/call_site_frames.h"

namespace stalloc::runtime {

class SiteNames {
 public:
  // A request of this call site was recorded; 0 is none.
  void Saw(std::uint64_t call_site) {
    if (call_site != 0 && seen_.insert(call_site).second) waiting_.push_back(call_site);
  }

  // Names those seen and not yet named, in the order in which they were seen, until `budget` is used up; asks for at
  // least one address.
  void Name(std::chrono::milliseconds budget);

  // Those named since the last call.
  std::vector<planner::CallSiteFrames> TakeNamed();

 private:
  const std::string& NameOf(std::uintptr_t address);

  std::unordered_set<std::uint64_t> seen_;
  std::deque<std::uint64_t> waiting_;
  std::unordered_map<std::uintptr_t, std::string> code_;  // names by return address
  std::vector<planner::CallSiteFrames> named_;
};

}  // namespace stalloc::runtime
