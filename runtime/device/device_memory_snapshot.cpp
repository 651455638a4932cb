// The part of DeviceMemory that says what there is: a block, counters, idle memory by reason and live blocks by call
// site, at one moment. Changes nothing but the high-water marks that the program may reset.
#include <algorithm>

#include "runtime/device/device_memory.h"

namespace stalloc::runtime {

std::optional<DeviceMemory::BlockInfo> DeviceMemory::Find(CUdeviceptr address) const {
  std::lock_guard lock(mutex_);
  if (!Owns(address)) return std::nullopt;
  std::optional<BlockInfo> result;
  // Rare: the program asks for a pointer's attributes. Most ask for the start of a block.
  const CUdeviceptr start = address / kGranuleBytes * kGranuleBytes;
  if (const Block* block = blocks_.Find(Key(start)); block != nullptr && address - start < block->size_bytes)
    return BlockInfo{start, block->size_bytes, block->number, 0};
  blocks_.ForEach([&](std::uint64_t key, const Block& block) {
    const CUdeviceptr begin = key * kGranuleBytes;
    if (address - begin < block.size_bytes) result = BlockInfo{begin, block.size_bytes, block.number, 0};
  });
  return result;
}

MemoryCounters DeviceMemory::Counters() const {
  std::lock_guard lock(mutex_);
  return CountersNow();
}

MemoryCounters DeviceMemory::CountersNow() const {
  MemoryCounters counters = counters_;
  const PageStore::Cost& cost = pages_.cost();
  counters.map_calls = cost.map_calls.load(std::memory_order_relaxed);
  counters.unmap_calls = cost.unmap_calls.load(std::memory_order_relaxed);
  counters.spent = cost.spent.Now();
  counters.views = views_ ? views_->size() : 0;
  counters.growth_bytes = static_cast<std::uint64_t>((Growth() - 1.0) * static_cast<double>(counters.peak_live_bytes));
  if (plans_) {
    static_cast<PlanCounters&>(counters) = plans_->counters();
    counters.iterations = plans_->iterations().completed();
  }
  return counters;
}

std::uint64_t DeviceMemory::IdleBytes() const {
  std::lock_guard lock(mutex_);
  return counters_.reserved_bytes - std::min(counters_.reserved_bytes, counters_.used_bytes);
}

void DeviceMemory::ResetHigh(bool used, bool reserved) {
  std::lock_guard lock(mutex_);
  if (used) {
    MemoryCounters& c = counters_;
    c.used_high_bytes = c.used_bytes;
    c.live_high_bytes = c.live_bytes;
    for (Tally* tally : {&c.blocks, &c.small_blocks.blocks, &c.small_blocks.used_bytes, &c.small_blocks.requested_bytes,
                         &c.large_blocks.blocks, &c.large_blocks.used_bytes, &c.large_blocks.requested_bytes})
      tally->high = tally->now;
  }
  if (reserved) counters_.reserved_high_bytes = counters_.reserved_bytes;
}

// Under the lock. A view that something lives in, or is about to, cannot go, nor can the pages behind the rest of it.
// One element a page of the base range.
void DeviceMemory::MarkBehindViews(std::vector<bool>* behind_views) const {
  for (const ViewIndex view : views_->Mapping(0, pages_.page_limit()))
    if ((*views_)[view].live_blocks != 0 || (*views_)[view].changing)
      for (const PageNumber page : (*views_)[view].pages) (*behind_views)[page] = true;
}

// Under the lock. `behind_views`, one element a page of the base range, is room to work in.
IdleMemory DeviceMemory::IdleNow(std::vector<bool>* behind_views) const {
  MarkBehindViews(behind_views);
  IdleMemory idle;
  // Free fragments page by page: one that is wholly free is idle as a whole, whatever the orders of its parts.
  PageNumber page = ~PageNumber{0};
  Granule free_granules = 0;
  bool executed = true;
  auto close = [&] {
    const std::uint64_t bytes = std::uint64_t{free_granules} * kGranuleBytes;
    if (free_granules == 0) return;
    if (free_granules < kPageGranules) {
      idle.remainder_bytes += bytes;
    } else if ((*behind_views)[page]) {
      idle.view_bytes += bytes;
    } else {
      (executed ? idle.usable_bytes : idle.ordered_bytes) += bytes;
    }
  };
  space_->VisitAll([&](Run fragment, Fence fence) {
    if (fence.stream == kAbsent) return;
    for (Granule at = fragment.begin; at < fragment.end;) {
      if (at / kPageGranules != page) {
        close();
        page = at / kPageGranules;
        free_granules = 0;
        executed = true;
      }
      const Granule end = std::min(fragment.end, (page + 1) * kPageGranules);
      free_granules += end - at;
      executed = executed && streams_.Executed(fence);
      at = end;
    }
  });
  close();
  for (const Deferred& d : deferred_) idle.ordered_bytes += std::uint64_t{d.block.granules} * kGranuleBytes;
  return idle;
}

MemorySnapshot DeviceMemory::Snapshot() const {
  MemorySnapshot snapshot;
  std::vector<bool> behind_views(pages_.page_limit());
  std::vector<std::pair<std::uint32_t, std::uint64_t>> blocks;  // site, bytes
  std::size_t expected = 0;
  {
    std::lock_guard lock(mutex_);
    expected = blocks_.size();
  }
  blocks.reserve(expected + expected / 8 + 64);  // so that, as a rule, nothing is allocated under the lock
  {
    std::lock_guard lock(mutex_);
    snapshot.counters = CountersNow();
    snapshot.idle = IdleNow(&behind_views);
    snapshot.iterations = plans_->iterations();
    blocks_.ForEach([&](std::uint64_t, const Block& block) { blocks.emplace_back(block.site, block.size_bytes); });
  }
  std::sort(blocks.begin(), blocks.end());
  for (const auto& [site, bytes] : blocks) {
    if (snapshot.sites.empty() || snapshot.sites.back().tag != site) snapshot.sites.push_back({site, 0, 0});
    snapshot.sites.back().bytes += bytes;
    ++snapshot.sites.back().blocks;
  }
  std::stable_sort(snapshot.sites.begin(), snapshot.sites.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return snapshot;
}

}  // namespace stalloc::runtime
