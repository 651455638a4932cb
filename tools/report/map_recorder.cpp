// MapRecorder, declared in tools/report/map.h.
#include <algorithm>

#include "runtime/base/granule.h"
#include "tools/report/map.h"

namespace stalloc::tools::report {
namespace {

constexpr std::size_t kIdleSamples = 600;
constexpr std::uint32_t kPageGranules = runtime::kPageGranules;

std::uint32_t GranulesOf(std::uint64_t bytes) {
  return static_cast<std::uint32_t>((bytes + runtime::kGranuleBytes - 1) / runtime::kGranuleBytes);
}

}  // namespace

MapRecorder::MapRecorder(const planner::Trace& trace, LevelSink levels)
    : trace_(trace),
      levels_(std::move(levels)),
      idle_every_(std::max<std::size_t>(1, trace.events.size() / kIdleSamples)) {}

std::uint32_t MapRecorder::SiteIndex(std::uint64_t site) {
  const auto [at, fresh] = site_index_.try_emplace(site, static_cast<std::uint32_t>(sites_.size()));
  if (fresh) sites_.push_back(site);
  return at->second;
}

void MapRecorder::Placed(std::size_t event, const runtime::BlockPlace& place, bool planned) {
  const planner::TraceEvent& request = trace_.events[event];
  BlockRectangle block;
  block.begin = static_cast<std::uint32_t>(event);
  block.end = static_cast<std::uint32_t>(trace_.events.size());
  block.size_bytes = request.size_bytes;
  block.site = SiteIndex(request.call_site);
  block.planned = planned;
  std::vector<std::size_t>& open = open_[request.block];
  const auto add = [&](std::uint32_t address, std::uint32_t length) {
    if (!open.empty() && blocks_[open.back()].address + blocks_[open.back()].length == address) {
      blocks_[open.back()].length += length;  // pages that happen to follow each other
      return;
    }
    block.address = address;
    block.length = length;
    open.push_back(blocks_.size());
    blocks_.push_back(block);
  };
  std::uint32_t left = GranulesOf(request.size_bytes);
  if (place.kind == runtime::BlockPlace::Kind::kRun) {
    add(static_cast<std::uint32_t>(place.begin), left);
    return;
  }
  auto first = static_cast<std::uint32_t>(place.begin % kPageGranules);
  for (const runtime::PageNumber page : place.pages) {
    const std::uint32_t here = std::min(left, kPageGranules - first);
    add(page * kPageGranules + first, here);
    left -= here;
    first = 0;
    if (left == 0) break;
  }
}

void MapRecorder::Freed(std::size_t event) {
  const auto open = open_.find(trace_.events[event].block);
  if (open == open_.end()) return;
  for (const std::size_t i : open->second) blocks_[i].end = static_cast<std::uint32_t>(event);
  open_.erase(open);
}

void MapRecorder::After(std::size_t event, const runtime::MemoryCounters& counters,
                        const runtime::DeviceMemory& memory) {
  levels_(event, counters.live_bytes, counters.reserved_bytes);
  if (counters.reserved_bytes != reserved_bytes_ || counters.unmap_calls != unmap_calls_)
    FollowPages(event, counters.reserved_bytes, memory);
  reserved_bytes_ = counters.reserved_bytes;
  unmap_calls_ = counters.unmap_calls;
  if (event % idle_every_ == 0 || event + 1 == trace_.events.size())
    idle_.push_back({static_cast<std::uint32_t>(event), memory.Snapshot().idle});
}

// Which pages exist is what lies below the highest one, but for the holes; how many, reserved_bytes says.
void MapRecorder::FollowPages(std::size_t event, std::uint64_t reserved_bytes, const runtime::DeviceMemory& memory) {
  const std::vector<runtime::Run> holes = memory.Holes();
  std::uint64_t pages = reserved_bytes / runtime::kPageBytes;
  for (const runtime::Run& hole : holes) pages += (hole.end - hole.begin) / kPageGranules;
  std::vector<bool> exists(std::max<std::size_t>(pages, held_since_.size()), false);
  std::fill_n(exists.begin(), pages, true);
  for (const runtime::Run& hole : holes)
    for (std::size_t page = hole.begin / kPageGranules; page < hole.end / kPageGranules && page < pages; ++page)
      exists[page] = false;
  held_since_.resize(exists.size(), 0);
  granules_ = std::max(granules_, static_cast<std::uint32_t>(held_since_.size() * kPageGranules));
  const auto now = static_cast<std::uint32_t>(event);
  for (std::size_t page = 0; page < exists.size(); ++page) {
    const bool was = held_since_[page] != 0;
    if (was == exists[page]) continue;
    if (!was) {
      held_since_[page] = now + 1;
      continue;
    }
    const std::uint32_t since = held_since_[page] - 1;
    const auto address = static_cast<std::uint32_t>(page * kPageGranules);
    Rectangle* const last = held_.empty() ? nullptr : &held_.back();
    if (last != nullptr && last->begin == since && last->end == now && last->address + last->length == address) {
      last->length += kPageGranules;
    } else {
      held_.push_back({since, now, address, kPageGranules});
    }
    held_since_[page] = 0;
  }
}

void MapRecorder::Finish() {
  const auto end = static_cast<std::uint32_t>(trace_.events.size());
  for (std::size_t page = 0; page < held_since_.size();) {
    const std::uint32_t since = held_since_[page];
    std::size_t behind = page + 1;
    while (behind < held_since_.size() && held_since_[behind] == since) ++behind;
    if (since != 0)
      held_.push_back({since - 1, end, static_cast<std::uint32_t>(page * kPageGranules),
                       static_cast<std::uint32_t>((behind - page) * kPageGranules)});
    page = behind;
  }
}

}  // namespace stalloc::tools::report
