#include "ledger.h"

#include <algorithm>

namespace stalloc::simcuda {

const std::array<EntryPointInfo, kEntryPoints> kEntryPointInfo = {{
#define SIMCUDA_FUNCTION(symbol, name, since, checks, cost_ns) {#symbol, #name, since, checks, cost_ns, false},
#define SIMCUDA_STREAM_FUNCTION(symbol, name, since, checks, cost_ns) \
  {#symbol, #name, since, checks, cost_ns, false},                    \
      {#symbol "_ptsz", #name, std::max(since, 7000), checks, cost_ns, true},
#define SIMCUDA_SYNCHRONOUS_FUNCTION(symbol, name, since, checks, cost_ns) \
  {#symbol, #name, since, checks, cost_ns, false},                         \
      {#symbol "_ptds", #name, std::max(since, 7000), checks, cost_ns, true},
#include "entry_points.def"
}};

namespace {

// The entry points that a name stands for: all versions of a base name, or one symbol where no base is so called.
std::vector<EntryPoint> Named(std::string_view function) {
  std::vector<EntryPoint> entries;
  for (std::size_t i = 0; i < kEntryPoints; ++i) {
    if (function == kEntryPointInfo[i].name) entries.push_back(static_cast<EntryPoint>(i));
  }
  for (std::size_t i = 0; entries.empty() && i < kEntryPoints; ++i) {
    if (function == kEntryPointInfo[i].symbol) entries.push_back(static_cast<EntryPoint>(i));
  }
  return entries;
}

}  // namespace

CUresult Ledger::Enter(EntryPoint entry) {
  ++counts_[static_cast<std::size_t>(entry)];
  virtual_time_ns_ += InfoOf(entry).cost_ns;
  CUresult result = CUDA_SUCCESS;
  for (Failure& failure : failures_) {
    if (std::find(failure.entries.begin(), failure.entries.end(), entry) == failure.entries.end()) continue;
    if (--failure.calls_left == 0 && result == CUDA_SUCCESS) result = failure.code;
  }
  if (!failures_.empty()) std::erase_if(failures_, [](const Failure& failure) { return failure.calls_left == 0; });
  return result;
}

bool Ledger::FailNext(std::string_view function, unsigned nth, CUresult code) {
  std::vector<EntryPoint> entries = Named(function);
  if (entries.empty() || nth == 0) return false;
  failures_.push_back({std::move(entries), nth, code});
  return true;
}

std::uint64_t Ledger::CallCount(std::string_view function) const {
  std::uint64_t calls = 0;
  for (const EntryPoint entry : Named(function)) calls += counts_[static_cast<std::size_t>(entry)];
  return calls;
}

}  // namespace stalloc::simcuda
