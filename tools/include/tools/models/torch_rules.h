// The size rules that PyTorch's two allocator modes share.
#pragma once

#include <cstdint>
#include <functional>

#include "tools/models/free_ranges.h"

namespace stalloc::tools::torch {

inline constexpr std::uint64_t kMinBlockBytes = 512;
inline constexpr std::uint64_t kSmallRequestBytes = 1ull << 20;  // up to here a request is served by the small pool
inline constexpr std::uint64_t kSmallSegmentBytes = 2ull << 20;
inline constexpr std::uint64_t kMediumRequestBytes = 10ull << 20;  // below, a request shares a segment of fixed size
inline constexpr std::uint64_t kMediumSegmentBytes = 20ull << 20;
inline constexpr std::uint64_t kLargeRoundingBytes = 2ull << 20;

constexpr std::uint64_t RoundedBytes(std::uint64_t size_bytes) {
  return size_bytes < kMinBlockBytes ? kMinBlockBytes : RoundUp(size_bytes, kMinBlockBytes);
}

constexpr bool IsSmall(std::uint64_t rounded_bytes) { return rounded_bytes <= kSmallRequestBytes; }

constexpr std::uint64_t SegmentBytes(std::uint64_t rounded_bytes) {
  if (IsSmall(rounded_bytes)) return kSmallSegmentBytes;
  if (rounded_bytes < kMediumRequestBytes) return kMediumSegmentBytes;
  return RoundUp(rounded_bytes, kLargeRoundingBytes);
}

// Blocks are reused within a stream and a pool only.
struct PoolKey {
  std::uint64_t stream = 0;
  bool small = false;
  friend bool operator==(const PoolKey&, const PoolKey&) = default;
};

struct PoolKeyHash {
  std::size_t operator()(const PoolKey& key) const {
    return std::hash<std::uint64_t>{}(key.stream) * 2 + (key.small ? 1 : 0);
  }
};

}  // namespace stalloc::tools::torch
