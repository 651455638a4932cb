#include "runtime/learning/plan_order.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>

#include "planner/lower_bound.h"
#include "planner/plan.h"
#include "runtime/learning/planned_waits.h"

namespace stalloc::runtime {

namespace {

using planner::Bytes;
using planner::Problem;
using planner::Time;

// Beyond so many waits in an iteration the streams would run one after another; memory is the smaller loss then.
constexpr std::size_t kMaxWaits = 64;

Bytes WholePages(Bytes bytes) { return (bytes + planner::kPageBytes - 1) / planner::kPageBytes * planner::kPageBytes; }

}  // namespace

std::vector<SlotOrder> AddStreamOrder(const Pattern& pattern, const std::vector<std::size_t>& members,
                                      const SeenBlocks& seen, const SeenOrder& order, Problem* problem) {
  static const SeenBlocks::Block kUnknown;
  std::vector<const SeenBlocks::Block*> blocks;
  std::map<StreamIndex, std::uint32_t> ordinals;
  bool one_order = true;
  for (const std::size_t member : members) {
    const SeenBlocks::Block* block = seen.Find(pattern.requests[member].example_block);
    blocks.push_back(block == nullptr ? &kUnknown : block);
    const StreamIndex stream = blocks.back()->stream;
    const StreamIndex freed_on = blocks.back()->freed.stream;
    ordinals.try_emplace(stream, static_cast<std::uint32_t>(ordinals.size()));
    one_order = one_order && (freed_on == kNoStream || freed_on == stream);
  }
  if (ordinals.size() <= 1 && one_order) return {};

  const std::size_t streams = ordinals.size();
  problem->streams = static_cast<std::uint32_t>(streams);
  problem->reusable.resize(members.size() * streams);
  std::vector<FreedIn> freed;
  for (std::size_t i = 0; i < members.size(); ++i) {
    planner::Request& r = problem->requests[i];
    const SeenBlocks::Block& block = *blocks[i];
    const Time never = r.begin + problem->period;
    auto reusable_on = [&](StreamIndex stream) {
      if (block.freed_at < 0) return never;
      const auto at = order.BehindAt(stream, block.freed, block.freed_at);
      return at ? std::min(never, r.end + (*at - block.freed_at)) : never;
    };
    for (const auto& [stream, ordinal] : ordinals) {
      const bool in_no_order = stream == kNoStream && block.stream == kNoStream;
      problem->reusable[i * streams + ordinal] = in_no_order ? r.end : std::max(r.end, reusable_on(stream));
    }
    r.stream = ordinals[block.stream];
    freed.push_back({block.freed.stream, block.freed.position});
  }

  std::vector<SlotOrder> slots(members.size());
  for (const PlannedWait& wait : PlanWaits(problem, freed, WholePages(planner::PeakLive(*problem)), kMaxWaits)) {
    slots[wait.at].waits = true;
    slots[wait.freed].waited_for = true;
  }
  // A block that is freed on another stream than its own is back to its own only when that is ordered behind the free.
  // To the planner it lives until then; to the waits above it did not, for they may bring that about sooner.
  for (std::size_t i = 0; i < members.size(); ++i) {
    planner::Request& r = problem->requests[i];
    const auto reusable = std::span(problem->reusable).subspan(i * streams, streams);
    r.end = reusable[r.stream];
    for (Time& from : reusable) from = std::max(from, r.end);
  }
  return slots;
}

}  // namespace stalloc::runtime
