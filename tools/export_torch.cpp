// ExportTorchSnapshot, declared in tools/export.h.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <unordered_map>

#include "tools/export.h"
#include "tools/models/free_ranges.h"
#include "tools/text.h"

namespace stalloc::tools {
namespace {

using planner::TraceEvent;

// Writes Python's pickle, protocol 2: what plain data needs.
class PickleWriter {
 public:
  PickleWriter() { bytes_ = "\x80\x02"; }

  void Text(const std::string& text) {
    bytes_ += 'X';
    Number(text.size(), 4);
    bytes_ += text;
  }
  void Integer(std::uint64_t number) {
    bytes_ += '\x8a';
    bytes_ += '\x09';  // with a zero byte for the sign
    Number(number, 9);
  }
  void False() { bytes_ += '\x89'; }
  void Key(const char* name) { Text(name); }
  void BeginList() { bytes_ += "]("; }
  void EndList() { bytes_ += 'e'; }
  void BeginDictionary() { bytes_ += "}("; }
  void EndDictionary() { bytes_ += 'u'; }
  void EmptyTuple() { bytes_ += ')'; }
  // Names what was written last; Recall writes it again.
  std::uint32_t Memoize() {
    bytes_ += 'r';
    Number(memos_, 4);
    return memos_++;
  }
  void Recall(std::uint32_t memo) {
    bytes_ += 'j';
    Number(memo, 4);
  }
  std::string Take() { return std::move(bytes_) + "."; }

 private:
  void Number(std::uint64_t number, int size) {
    for (int i = 0; i < size; ++i) bytes_ += static_cast<char>(i < 8 ? number >> (8 * i) & 0xff : 0);
  }

  std::string bytes_;
  std::uint32_t memos_ = 0;
};

constexpr std::uint64_t kFirstAddress = 0x7000'0000'0000;
constexpr std::uint64_t kAlignment = 512;

struct Placed {
  const TraceEvent* event = nullptr;
  FreeRanges::Range range;
};

class Snapshot {
 public:
  explicit Snapshot(const planner::Trace& trace) : trace_(trace) {}

  std::string Write() {
    for (const TraceEvent& event : trace_.events) devices_.try_emplace(event.device);
    out_.BeginDictionary();
    out_.Key("device_traces");
    out_.BeginList();
    const unsigned last = devices_.empty() ? 0 : devices_.rbegin()->first;
    for (unsigned device = 0; device <= last; ++device) WriteTrace(device);
    out_.EndList();
    out_.Key("segments");
    out_.BeginList();
    for (const auto& [device, state] : devices_)
      if (state.end != 0) WriteSegment(device, state);
    out_.EndList();
    out_.Key("allocator_settings");
    out_.BeginDictionary();
    out_.EndDictionary();
    out_.EndDictionary();
    return out_.Take();
  }

 private:
  struct Device {
    FreeRanges free;
    std::uint64_t end = 0;
    std::map<std::uint64_t, Placed> live;  // by block
  };

  void Number(const char* key, std::uint64_t number) {
    out_.Key(key);
    out_.Integer(number);
  }
  void Text(const char* key, const std::string& text) {
    out_.Key(key);
    out_.Text(text);
  }

  // "function (file.py:12)" or "function (module+0x12)".
  void Frame(const std::string& frame) {
    const std::size_t place = frame.rfind(" (");
    std::string file = place == std::string::npos ? "" : frame.substr(place + 2, frame.size() - place - 3);
    std::uint64_t line = 0;
    if (const std::size_t colon = file.rfind(':'); colon != std::string::npos) {
      line = std::strtoull(file.c_str() + colon + 1, nullptr, 10);
      file.resize(colon);
    }
    out_.BeginDictionary();
    Text("name", frame.substr(0, place));
    Text("filename", file);
    Number("line", line);
    out_.EndDictionary();
  }

  void Frames(std::uint64_t site) {
    out_.Key("frames");
    if (const auto memo = memos_.find(site); memo != memos_.end()) return out_.Recall(memo->second);
    out_.BeginList();
    if (const auto frames = trace_.frames.find(site); frames != trace_.frames.end())
      for (const std::string& frame : frames->second) Frame(frame);
    out_.EndList();
    memos_.emplace(site, out_.Memoize());
  }

  void Entry(const char* action, const TraceEvent& event, const Placed& block) {
    out_.BeginDictionary();
    Text("action", action);
    Number("addr", kFirstAddress + block.range.begin);
    Number("size", block.event->size_bytes);
    Number("stream", event.stream);
    Number("time_us", event.time_ns / 1000);
    Frames(block.event->call_site);
    out_.EndDictionary();
  }

  void WriteTrace(unsigned device) {
    out_.BeginList();
    Device& state = devices_[device];
    for (const TraceEvent& event : trace_.events) {
      if (event.device != device) continue;
      if (event.op == TraceEvent::Op::kAllocate) {
        const std::uint64_t size = RoundUp(std::max<std::uint64_t>(event.size_bytes, 1), kAlignment);
        std::optional<FreeRanges::Range> range = state.free.TakeBestFit(size);
        if (!range) {
          range = FreeRanges::Range{state.end, state.end + size};
          state.end += size;
        }
        if (range->size() > size) state.free.Insert({range->begin + size, range->end});
        const Placed placed{&event, {range->begin, range->begin + size}};
        Entry("alloc", event, placed);
        state.live[event.block] = placed;
      } else if (const auto block = state.live.find(event.block); block != state.live.end()) {
        Entry("free_requested", event, block->second);
        Entry("free_completed", event, block->second);
        state.free.Insert(block->second.range);
        state.live.erase(block);
      }
    }
    out_.EndList();
  }

  void Block(std::uint64_t begin, std::uint64_t end, const Placed* block) {
    out_.BeginDictionary();
    Number("address", kFirstAddress + begin);
    Number("size", end - begin);
    Number("requested_size", block != nullptr ? block->event->size_bytes : 0);
    Text("state", block != nullptr ? "active_allocated" : "inactive");
    Frames(block != nullptr ? block->event->call_site : 0);
    out_.EndDictionary();
  }

  void WriteSegment(unsigned device, const Device& state) {
    std::vector<const Placed*> blocks;
    std::uint64_t live_bytes = 0;
    std::uint64_t requested_bytes = 0;
    for (const auto& [number, block] : state.live) {
      blocks.push_back(&block);
      live_bytes += block.range.size();
      requested_bytes += block.event->size_bytes;
    }
    std::sort(blocks.begin(), blocks.end(),
              [](const Placed* a, const Placed* b) { return a->range.begin < b->range.begin; });
    out_.BeginDictionary();
    Number("device", device);
    Number("address", kFirstAddress);
    Number("total_size", state.end);
    Number("allocated_size", live_bytes);
    Number("active_size", live_bytes);
    Number("requested_size", requested_bytes);
    Number("stream", 0);
    Text("segment_type", "large");
    out_.Key("segment_pool_id");
    out_.EmptyTuple();
    out_.Key("is_expandable");
    out_.False();
    Frames(0);
    out_.Key("blocks");
    out_.BeginList();
    std::uint64_t at = 0;
    for (const Placed* block : blocks) {
      if (block->range.begin > at) Block(at, block->range.begin, nullptr);
      Block(block->range.begin, block->range.end, block);
      at = block->range.end;
    }
    if (at < state.end) Block(at, state.end, nullptr);
    out_.EndList();
    out_.EndDictionary();
  }

  const planner::Trace& trace_;
  PickleWriter out_;
  std::map<unsigned, Device> devices_;
  std::unordered_map<std::uint64_t, std::uint32_t> memos_;
};

}  // namespace

std::string ExportTorchSnapshot(const planner::Trace& trace) { return Snapshot(trace).Write(); }

}  // namespace stalloc::tools
