// TraceBuilder, declared in tools/import.h.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "tools/import.h"

namespace stalloc::tools {

using planner::TraceEvent;

std::uint32_t TraceBuilder::Stream(std::uint64_t handle) {
  return streams_.try_emplace(handle, static_cast<std::uint32_t>(streams_.size())).first->second;
}

TraceEvent TraceBuilder::Event(TraceEvent::Op op, unsigned device, const Block& block, std::uint64_t stream) {
  TraceEvent event;
  event.op = op;
  event.device = static_cast<std::uint8_t>(device);
  event.flags = TraceEvent::kHasStream;
  event.stream = Stream(stream);
  event.block = block.number;
  event.size_bytes = block.size_bytes;
  return event;
}

void TraceBuilder::LiveBefore(unsigned device, std::uint64_t address, std::uint64_t size_bytes, std::uint64_t stream,
                              std::uint64_t call_site) {
  const Block block{next_block_++, size_bytes};
  before_.push_back(Event(TraceEvent::Op::kAllocate, device, block, stream));
  before_.back().call_site = call_site;
  live_[Key(device, address)] = block;
}

void TraceBuilder::Allocate(unsigned device, std::uint64_t address, std::uint64_t size_bytes, std::uint64_t stream,
                            std::uint32_t thread, std::uint64_t call_site, std::uint64_t time_ns) {
  if (IsLive(device, address)) Free(device, address, 0, stream, thread, time_ns);
  const Block block{next_block_++, size_bytes};
  events_.push_back(Event(TraceEvent::Op::kAllocate, device, block, stream));
  events_.back().call_site = call_site;
  events_.back().thread = thread;
  events_.back().time_ns = time_ns;
  live_[Key(device, address)] = block;
}

void TraceBuilder::Free(unsigned device, std::uint64_t address, std::uint64_t size_bytes, std::uint64_t stream,
                        std::uint32_t thread, std::uint64_t time_ns) {
  if (!IsLive(device, address)) {
    if (size_bytes == 0) return;
    LiveBefore(device, address, size_bytes, stream, 0);
  }
  const auto block = live_.find(Key(device, address));
  events_.push_back(Event(TraceEvent::Op::kFree, device, block->second, stream));
  events_.back().thread = thread;
  events_.back().time_ns = time_ns;
  live_.erase(block);
}

std::uint64_t TraceBuilder::CallSite(std::vector<std::string> frames) {
  if (frames.empty()) return 0;
  std::string all;
  for (const std::string& frame : frames) all += frame + "\n";
  const std::uint64_t number = XXH3_64bits(all.data(), all.size()) | 1;
  frames_.try_emplace(number, std::move(frames));
  return number;
}

planner::Trace TraceBuilder::Take() {
  // Several devices are listed one after another. Allocation numbers need not rise with time; frees follow their
  // blocks.
  std::stable_sort(events_.begin(), events_.end(),
                   [](const TraceEvent& a, const TraceEvent& b) { return a.time_ns < b.time_ns; });
  planner::Trace trace;
  trace.events = std::move(before_);
  const std::uint64_t start_ns = events_.empty() ? 0 : events_.front().time_ns;
  for (TraceEvent& event : events_) {
    event.time_ns -= start_ns;
    trace.events.push_back(event);
  }
  std::unordered_map<std::uint64_t, std::uint64_t> number;  // as a trace has them: in the order of allocations
  for (std::size_t k = 0; k < trace.events.size(); ++k) {
    TraceEvent& event = trace.events[k];
    event.sequence = k;
    event.block = number.try_emplace(event.block, number.size()).first->second;
  }
  trace.frames = std::move(frames_);
  return trace;
}

}  // namespace stalloc::tools
