// Ledger: the entry points as data, how often each was called, what the calls would have cost, which are to fail.
// Called under the machine's lock.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cuda_driver.h"

namespace stalloc::simcuda {

// What an entry point asks for before its body runs.
enum Check : unsigned {
  kNothing = 0,
  kInitialised = 1,            // else CUDA_ERROR_NOT_INITIALIZED
  kSound = 2 | 1,              // the current context, if any, is not broken, else its sticky error
  kContext = 4 | 2 | 1,        // a context is current, else CUDA_ERROR_INVALID_CONTEXT
  kNotWhileCapturing = 8,      // "potentially unsafe": see capture.h
  kNotDestroyed = 16 | 2 | 1,  // the current context, if any, is not destroyed, else CUDA_ERROR_CONTEXT_IS_DESTROYED
};

enum class EntryPoint : std::uint16_t {
#define SIMCUDA_FUNCTION(symbol, name, since, checks, cost_ns) k_##symbol,
#define SIMCUDA_STREAM_FUNCTION(symbol, name, since, checks, cost_ns) k_##symbol, k_##symbol##_ptsz,
#define SIMCUDA_SYNCHRONOUS_FUNCTION(symbol, name, since, checks, cost_ns) k_##symbol, k_##symbol##_ptds,
#include "entry_points.def"
  kCount
};

// The entry point that a function name stands for in this file, after cuda.h's macros: SIMCUDA_ENTRY(cuMemAlloc) is
// EntryPoint::k_cuMemAlloc_v2.
#define SIMCUDA_JOIN_EXPANDED(left, right) left##right
#define SIMCUDA_JOIN(left, right) SIMCUDA_JOIN_EXPANDED(left, right)
#define SIMCUDA_ENTRY(function) ::stalloc::simcuda::EntryPoint::SIMCUDA_JOIN(k_, function)

struct EntryPointInfo {
  const char* symbol;
  const char* name;
  int since;
  unsigned checks;
  std::uint64_t cost_ns;
  bool per_thread;  // a _ptsz or _ptds variant
};

inline constexpr std::size_t kEntryPoints = static_cast<std::size_t>(EntryPoint::kCount);
extern const std::array<EntryPointInfo, kEntryPoints> kEntryPointInfo;

inline const EntryPointInfo& InfoOf(EntryPoint entry) { return kEntryPointInfo[static_cast<std::size_t>(entry)]; }

class Ledger {
 public:
  // Counts a call; the error that it was told to fail with, or CUDA_SUCCESS.
  CUresult Enter(EntryPoint entry);
  void AddCost(std::uint64_t cost_ns) { virtual_time_ns_ += cost_ns; }
  // The host has waited until then.
  void AdvanceTo(std::uint64_t time_ns) { virtual_time_ns_ = std::max(virtual_time_ns_, time_ns); }

  bool FailNext(std::string_view function, unsigned nth, CUresult code);
  std::uint64_t CallCount(std::string_view function) const;
  std::uint64_t virtual_time_ns() const { return virtual_time_ns_; }

 private:
  struct Failure {
    std::vector<EntryPoint> entries;
    unsigned calls_left;
    CUresult code;
  };

  std::array<std::uint64_t, kEntryPoints> counts_{};
  std::uint64_t virtual_time_ns_ = 0;
  std::vector<Failure> failures_;
};

}  // namespace stalloc::simcuda
