// From files of other tools to a trace.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "planner/trace_problem.h"

namespace stalloc::tools {

// Puts a trace together from what says addresses and no block numbers. One thread.
class TraceBuilder {
 public:
  // A block that was live before the file begins.
  void LiveBefore(unsigned device, std::uint64_t address, std::uint64_t size_bytes, std::uint64_t stream,
                  std::uint64_t call_site);
  // `time_ns` on any clock. An allocation at an address that is live ends what was there: the file has lost its free.
  void Allocate(unsigned device, std::uint64_t address, std::uint64_t size_bytes, std::uint64_t stream,
                std::uint32_t thread, std::uint64_t call_site, std::uint64_t time_ns);
  // A free of what is not live stands for a block from before; `size_bytes` is that one's. 0: it is left out.
  void Free(unsigned device, std::uint64_t address, std::uint64_t size_bytes, std::uint64_t stream,
            std::uint32_t thread, std::uint64_t time_ns);
  bool IsLive(unsigned device, std::uint64_t address) const { return live_.contains(Key(device, address)); }

  // The number of a call site with these frames, innermost first; 0: there are none.
  std::uint64_t CallSite(std::vector<std::string> frames);

  planner::Trace Take();

 private:
  struct Block {
    std::uint64_t number = 0;
    std::uint64_t size_bytes = 0;
  };
  static std::uint64_t Key(unsigned device, std::uint64_t address) { return address ^ (std::uint64_t{device} << 57); }
  std::uint32_t Stream(std::uint64_t handle);
  planner::TraceEvent Event(planner::TraceEvent::Op op, unsigned device, const Block& block, std::uint64_t stream);

  std::vector<planner::TraceEvent> before_;
  std::vector<planner::TraceEvent> events_;
  std::unordered_map<std::uint64_t, Block> live_;
  std::unordered_map<std::uint64_t, std::uint32_t> streams_;
  std::uint64_t next_block_ = 0;
  decltype(planner::Trace::frames) frames_;
};

// torch.cuda.memory._dump_snapshot's pickle, RMM's log (both may be gzipped). Throw Failure with the place and the
// reason.
planner::Trace ImportTorchSnapshot(const std::string& path);
planner::Trace ImportRmmLog(const std::string& path);

}  // namespace stalloc::tools
