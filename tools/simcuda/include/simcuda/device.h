// The simulated CUDA device as a C++ tool or test sees it, where it is linked statically: link stalloc_simcuda, and the
// cu* functions of cuda.h are there. See extensions.h for what can be asked beyond CUDA's interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace stalloc::simcuda {

struct Card;

struct Config {
  int device_count = 1;
  const Card* card = nullptr;                 // which one the devices look like; null: an H200 that says what it is
  std::uint64_t memory_bytes = 140ull << 30;  // of each device
  std::uint64_t seed = 1;                     // of the order in which streams make progress
  // Operations that a stream holds back before it executes the oldest. 0: work executes as it is queued.
  std::size_t max_pending = 1024;
  // Work executes when the modelled clock has reached its end, and a host that waits loses that time. Otherwise the
  // seed decides when it executes, and durations show in events' times only.
  bool clock = false;
  std::string shared{};     // processes with this name use the same devices; empty: this one has its own
  bool peer_access = true;  // devices can reach each other's memory
};

// SIMCUDA_DEVICE (cards.h: the name of a card, whose memory the devices then have), SIMCUDA_DEVICES (how many),
// SIMCUDA_MEMORY (runtime/base/byte_size.h), SIMCUDA_SEED, SIMCUDA_LAG (max_pending),
// SIMCUDA_CLOCK (0 or 1; 1 where SIMCUDA_DEVICE is set), SIMCUDA_SHARED (shared),
// SIMCUDA_PEERS (0: devices cannot reach each other's memory).
// What is not set or not a number keeps its default. The devices of a process start with this. libcuda.so.1 also knows
// SIMCUDA_REPORT: a file (%p in its name: the process id) to which it writes, at the end, one JSON object with
// corruptions, first_corruption, peak_physical_bytes (the highest of the devices), virtual_time_ns and, for each of the
// devices, its peak_physical_bytes, memory_bytes and refused_requests.
//
// SIMCUDA_DEVICE with a name that no card has is an error: *error says so.
Config ConfigFromEnvironment(std::string* error = nullptr);

// Forgets everything and starts with fresh devices: handles and contexts of before are invalid in every thread. No
// other thread may be inside a CUDA call. The caller calls cuInit again.
void Reset(const Config& config);

}  // namespace stalloc::simcuda
