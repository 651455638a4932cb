#include "runtime/learning/seen.h"

#include <algorithm>

#include "planner/plan.h"
#include "runtime/following/plan_in_force.h"

namespace stalloc::runtime {

void SeenBlocks::Add(std::uint64_t number, Block block) {
  block.occurrence = occurrences_[PlanInForce::PersistentKey(block.call_site, block.size_bytes)]++;
  kept_.emplace_back(number, block);
}

std::size_t SeenBlocks::IndexOf(std::uint64_t number) const {
  const auto found = std::lower_bound(kept_.begin(), kept_.end(), number,
                                      [](const auto& entry, std::uint64_t n) { return entry.first < n; });
  if (found == kept_.end() || found->first != number) return kept_.size();
  return static_cast<std::size_t>(found - kept_.begin());
}

const SeenBlocks::Block* SeenBlocks::Find(std::uint64_t number) const {
  const std::size_t index = IndexOf(number);
  return index == kept_.size() ? nullptr : &kept_[index].second;
}

std::uint64_t SeenBlocks::BytesFreedSince(std::uint64_t number, std::int64_t at) const {
  std::uint64_t bytes = 0;
  for (const auto& [block_number, block] : kept_)
    if (block_number < number && block.freed_at >= at) bytes += block.size_bytes;
  return bytes;
}

void SeenBlocks::Free(std::uint64_t number, Fence freed, std::int64_t at) {
  const std::size_t index = IndexOf(number);
  if (index == kept_.size()) return;
  kept_[index].second.freed = freed;
  kept_[index].second.freed_at = at;
}

void SeenBlocks::Forget(std::uint64_t before, const std::vector<DeviceMemory::LiveBlock>& live) {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(live.size());
  for (const auto& block : live) numbers.push_back(block.info.number);
  std::sort(numbers.begin(), numbers.end());
  std::erase_if(kept_, [&](const auto& entry) {
    return entry.first < before && !std::binary_search(numbers.begin(), numbers.end(), entry.first);
  });
}

void SeenOrder::Add(StreamIndex stream, Fence fence, std::int64_t at) {
  std::vector<Reached>& reached = reached_[{stream, fence.stream}];
  if (reached.empty() || reached.back().position < fence.position) reached.push_back({fence.position, at});
}

std::optional<std::int64_t> SeenOrder::BehindAt(StreamIndex stream, Fence freed, std::int64_t freed_at) const {
  if (freed.stream == kNoStream || freed.stream == stream) return freed_at;
  const auto pair = reached_.find({stream, freed.stream});
  if (pair == reached_.end()) return std::nullopt;
  const auto at = std::lower_bound(pair->second.begin(), pair->second.end(), freed.position,
                                   [](const Reached& r, std::uint64_t position) { return r.position < position; });
  if (at == pair->second.end()) return std::nullopt;
  return std::max(at->at, freed_at);
}

void SeenBeginning::Add(std::uint64_t size_bytes) {
  if (ended_) return;
  if (size_bytes > kPageBytes) large_.push_back({requests_, size_bytes});
  ++requests_;
  if (large_.size() == planner::kLongestBeginning) End();
}

std::vector<std::uint64_t> SeenBeginning::LargeOfFirst(std::uint64_t requests) const {
  std::vector<std::uint64_t> sizes;
  if (requests > requests_) return sizes;
  for (const Large& one : large_)
    if (one.before < requests) sizes.push_back(one.size_bytes);
  return sizes;
}

}  // namespace stalloc::runtime
