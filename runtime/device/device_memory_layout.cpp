// The part of DeviceMemory that says where everything lies: the ranges of addresses that are held, and the live blocks.
#include <algorithm>

#include "runtime/device/device_memory.h"

namespace stalloc::runtime {
namespace {

using Segment = MemoryLayout::Segment;

// Ends the run of granules that is being gathered, if there is one.
void EndRun(CUdeviceptr base, Run* run, std::vector<Segment>* segments) {
  if (run->length() != 0)
    segments->push_back(
        {base + std::uint64_t{run->begin} * kGranuleBytes, std::uint64_t{run->length()} * kGranuleBytes, {}});
  *run = {};
}

void Extend(CUdeviceptr base, Run part, Run* run, std::vector<Segment>* segments) {
  if (run->length() != 0 && run->end != part.begin) EndRun(base, run, segments);
  if (run->length() == 0) run->begin = part.begin;
  run->end = part.end;
}

}  // namespace

MemoryLayout DeviceMemory::Layout() {
  std::vector<MemoryLayout::Block> blocks;  // in the base range
  std::vector<Run> behind_views;            // granules of the base range in which blocks of views live
  std::vector<bool> exists(pages_.page_limit());
  MemoryLayout layout;
  {
    std::lock_guard lock(mutex_);
    for (PageNumber page = 0; page < exists.size(); ++page) exists[page] = pages_.Exists(page);
    blocks_.ForEach([&](std::uint64_t key, const Block& block) {
      const std::uint64_t used = std::uint64_t{block.granules} * kGranuleBytes;
      const MemoryLayout::Block one{key * kGranuleBytes, used, block.size_bytes};
      if (block.view == kNoView) {
        blocks.push_back(one);
        return;
      }
      layout.segments.push_back({one.address, used, {one}});
      const ViewTable::View& view = (*views_)[block.view];
      Granule left = block.granules;
      for (Granule at = view.head; left != 0;) {
        const Granule in_page = std::min(left, kPageGranules - at % kPageGranules);
        const Granule begin = view.pages[at / kPageGranules] * kPageGranules + at % kPageGranules;
        behind_views.push_back({begin, begin + in_page});
        at += in_page;
        left -= in_page;
      }
    });
  }
  std::ranges::sort(behind_views, {}, &Run::begin);
  std::ranges::sort(blocks, {}, &MemoryLayout::Block::address);

  Run run;
  auto behind = behind_views.begin();
  for (PageNumber page = 0; page < exists.size(); ++page) {
    if (!exists[page]) continue;
    const Granule end = (page + 1) * kPageGranules;
    Granule at = page * kPageGranules;
    for (; behind != behind_views.end() && behind->begin < end; ++behind) {
      if (at < behind->begin) Extend(pages_.base(), {at, behind->begin}, &run, &layout.segments);
      at = behind->end;
    }
    if (at < end) Extend(pages_.base(), {at, end}, &run, &layout.segments);
  }
  EndRun(pages_.base(), &run, &layout.segments);
  std::ranges::sort(layout.segments, {}, &Segment::address);

  auto block = blocks.begin();
  for (Segment& segment : layout.segments) {
    if (!segment.blocks.empty()) continue;
    while (block != blocks.end() && block->address < segment.address) ++block;  // served this moment, not yet mapped
    for (; block != blocks.end() && block->address < segment.address + segment.size_bytes; ++block)
      segment.blocks.push_back(*block);
  }
  return layout;
}

}  // namespace stalloc::runtime
