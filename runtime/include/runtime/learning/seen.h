// What the learner has seen of a device's blocks, of the order between its streams, and of how the program began.
//
// Kept on the learner's thread; times count the allocations and frees that were observed, from 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/device/device_memory.h"

namespace stalloc::runtime {

// By allocation number.
class SeenBlocks {
 public:
  struct Block {
    std::uint64_t size_bytes = 0;
    std::uint64_t call_site = 0;
    Granule begin = 0;
    ViewIndex view = kNoView;
    StreamIndex stream = kNoStream;
    std::uint32_t occurrence = 0;  // how many of its call site and size came before, since the program's start
    std::int64_t made_at = 0;      // when it was allocated
    Fence freed{};                 // its place in the order of the stream on which it was freed; kNoStream: in none
    std::int64_t freed_at = -1;    // when; -1: it was not
  };

  // Sets `occurrence` by itself.
  void Add(std::uint64_t number, Block block);
  void Free(std::uint64_t number, Fence freed, std::int64_t at);
  const Block* Find(std::uint64_t number) const;
  // The bytes of blocks from before `number` that were freed at `at` or later.
  std::uint64_t BytesFreedSince(std::uint64_t number, std::int64_t at) const;
  // Drops what was allocated before `number` and is not among the live ones given.
  void Forget(std::uint64_t before, const std::vector<DeviceMemory::LiveBlock>& live);

 private:
  std::size_t IndexOf(std::uint64_t number) const;  // kept_.size() where it is not known

  std::vector<std::pair<std::uint64_t, Block>> kept_;  // sorted by number
  std::unordered_map<std::uint64_t, std::uint32_t> occurrences_;
};

// When did the program itself order one stream behind another's frees?
class SeenOrder {
 public:
  // From time `at` on, `stream` is behind `fence`. Times and, for one pair of streams, positions never fall.
  void Add(StreamIndex stream, Fence fence, std::int64_t at);

  // The first time at which a request on `stream` was behind `freed`, of a block that was freed at `freed_at`; nullopt
  // if it was not seen to be.
  std::optional<std::int64_t> BehindAt(StreamIndex stream, Fence freed, std::int64_t freed_at) const;

  void Forget() { reached_.clear(); }

 private:
  struct Reached {
    std::uint64_t position;
    std::int64_t at;
  };
  std::map<std::pair<StreamIndex, StreamIndex>, std::vector<Reached>> reached_;  // by (waiting, waited for)
};

// The sizes of the program's first large requests, by which a run that does the same is known again.
class SeenBeginning {
 public:
  // Of every request, from the program's first on.
  void Add(std::uint64_t size_bytes);
  // What comes now has a gap before it.
  void End() noexcept { ended_ = true; }

  // Of the first `requests` requests those of more than a page, in their order; none where fewer have been seen.
  std::vector<std::uint64_t> LargeOfFirst(std::uint64_t requests) const;

 private:
  struct Large {
    std::uint64_t before;  // requests that came before it
    std::uint64_t size_bytes;
  };
  std::vector<Large> large_;
  std::uint64_t requests_ = 0;
  bool ended_ = false;
};

}  // namespace stalloc::runtime
