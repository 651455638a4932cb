#include "trace/site_names.h"

#include <array>
#include <utility>

#include "runtime/call_sites/call_site.h"
#include "runtime/call_sites/code_name.h"

namespace stalloc::runtime {

const std::string& SiteNames::NameOf(std::uintptr_t address) {
  const auto [at, is_new] = code_.try_emplace(address);
  if (is_new) at->second = CodeName(address);
  return at->second;
}

void SiteNames::Name(std::chrono::milliseconds budget) {
  using Clock = std::chrono::steady_clock;
  if (waiting_.empty()) return;
  const Clock::time_point deadline = Clock::now() + budget;
  const std::size_t asked_before = code_.size();
  const auto may_ask = [&] { return code_.size() == asked_before || Clock::now() < deadline; };
  while (!waiting_.empty() && may_ask()) {
    std::array<std::uintptr_t, kMaxStackDepth> addresses{};
    const int count = FramesOfSite(SiteTag(waiting_.front()), addresses.data(), static_cast<int>(addresses.size()));
    planner::CallSiteFrames site{.call_site = waiting_.front(), .frames = {}};
    for (int k = 0; k < count; ++k) {
      if (!code_.contains(addresses[k]) && !may_ask()) return;  // the names found so far are there the next time
      site.frames.push_back(NameOf(addresses[k]));
    }
    waiting_.pop_front();
    if (count != 0) named_.push_back(std::move(site));
  }
}

std::vector<planner::CallSiteFrames> SiteNames::TakeNamed() { return std::exchange(named_, {}); }

}  // namespace stalloc::runtime
