// Where the blocks of a replayed trace lay: recorded while stalloc is replayed, packed for the page of `stalloc
// report`. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "planner/trace_problem.h"
#include "tools/replay.h"

namespace stalloc::tools::report {

// A part of the plane of events and physical addresses: [begin, end) by [address, address + length), in granules.
struct Rectangle {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t address = 0;
  std::uint32_t length = 0;
};

// What is drawn of a block. One whose pages are scattered has several.
struct BlockRectangle : Rectangle {
  std::uint64_t size_bytes = 0;  // of the whole block, as requested
  std::uint32_t site = 0;        // index into the sites of the map
  bool planned = false;
};

// Idle memory at one moment, by reason.
struct IdleSample {
  std::uint32_t event = 0;
  runtime::IdleMemory idle;
};

class MapRecorder : public ReplayWatcher {
 public:
  // `sites` receives the call sites in the order of their indices.
  MapRecorder(const planner::Trace& trace, LevelSink levels);

  void Placed(std::size_t event, const runtime::BlockPlace& place, bool planned) override;
  void Freed(std::size_t event) override;
  void After(std::size_t event, const runtime::MemoryCounters& counters, const runtime::DeviceMemory& memory) override;

  // After the last event: ends what is still open.
  void Finish();

  const std::vector<BlockRectangle>& blocks() const { return blocks_; }
  const std::vector<Rectangle>& held() const { return held_; }
  const std::vector<IdleSample>& idle() const { return idle_; }
  const std::vector<std::uint64_t>& sites() const { return sites_; }
  std::uint32_t granules() const { return granules_; }  // the end of the highest page ever held

 private:
  std::uint32_t SiteIndex(std::uint64_t site);
  void FollowPages(std::size_t event, std::uint64_t reserved_bytes, const runtime::DeviceMemory& memory);

  const planner::Trace& trace_;
  const LevelSink levels_;
  const std::size_t idle_every_;
  std::vector<BlockRectangle> blocks_;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> open_;  // by block: its rectangles
  std::vector<Rectangle> held_;
  std::vector<std::uint32_t> held_since_;  // by page: event + 1; 0: not held
  std::uint64_t reserved_bytes_ = 0;
  std::uint64_t unmap_calls_ = 0;
  std::vector<IdleSample> idle_;
  std::vector<std::uint64_t> sites_;
  std::unordered_map<std::uint64_t, std::uint32_t> site_index_;
  std::uint32_t granules_ = 0;
};

// The map in the form that tools/report/map.js reads: base64 of a zlib stream of little-endian columns, in this order.
//
//   of each rectangle   begin, end, address, length, size (low, high), site (bit 31: planned)     u32 each, by column
//   of held memory      begin, end, address, length                                              u32 each, by column
//   of the averages     planned share, online share                     u8 each; by column, lowest address first
struct PackedMap {
  static constexpr std::uint32_t kColumns = 1000;
  static constexpr std::uint32_t kRows = 400;
  std::string base64;
  std::size_t rectangles = 0;
  std::size_t held = 0;
  std::uint32_t detail_first = 0;  // events [detail_first, detail_last] have all their blocks one by one
  std::uint32_t detail_last = 0;
};

// At most `most_rectangles` of them one by one, those that live nearest to `peak_event`. Throws Failure.
PackedMap Pack(const MapRecorder& map, std::size_t events, std::size_t peak_event, std::size_t most_rectangles);

}  // namespace stalloc::tools::report
