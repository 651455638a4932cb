// What memory is counted in, granules of 512 bytes and runs of them, and what orders its uses, fences.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stalloc::runtime {

using Granule = std::uint32_t;

inline constexpr std::size_t kGranuleBytes = 512;
inline constexpr std::size_t kPageBytes = std::size_t{2} << 20;
inline constexpr Granule kPageGranules = static_cast<Granule>(kPageBytes / kGranuleBytes);

constexpr Granule GranulesOf(std::size_t bytes) noexcept {
  return static_cast<Granule>((bytes + kGranuleBytes - 1) / kGranuleBytes);
}

// Half-open run of granules.
struct Run {
  Granule begin = 0;
  Granule end = 0;
  Granule length() const noexcept { return end - begin; }
  friend bool operator==(const Run&, const Run&) = default;
};

using StreamIndex = std::uint16_t;
inline constexpr StreamIndex kNoStream = 0;
inline constexpr std::size_t kMaxStreams = 128;

// The "stream" of granules whose pages do not exist yet: they can be claimed, but must be mapped before they are used.
// Whole pages only, and never merged with anything that exists.
inline constexpr StreamIndex kAbsent = kMaxStreams - 1;

// A position in a stream's order. Stream kNoStream: no order to wait for.
struct Fence {
  StreamIndex stream = kNoStream;
  std::uint64_t position = 0;
  friend bool operator==(const Fence&, const Fence&) = default;
};

}  // namespace stalloc::runtime
