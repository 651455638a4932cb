#include "runtime/stall_timer.h"

#include <utility>

namespace stalloc::runtime {

namespace {

// More are not measured at once: a program that waits so often is known to.
constexpr std::size_t kMostPairs = 64;

}  // namespace

bool StallTimer::Pop(std::vector<Pair>* from, Pair* pair) noexcept {
  std::lock_guard lock(lock_);
  if (from->empty()) return false;
  *pair = from->back();
  from->pop_back();
  return true;
}

void StallTimer::Push(std::vector<Pair>* to, Pair pair) noexcept {
  std::lock_guard lock(lock_);
  to->push_back(pair);
}

StallTimer::Pair StallTimer::Begin(CUstream stream) noexcept {
  if (driver_.cuEventElapsedTime == nullptr) return {};
  Pair pair;
  if (!Pop(&idle_, &pair)) {
    {
      std::lock_guard lock(lock_);
      if (pending_.size() >= kMostPairs) return {};
    }
    if (driver_.cuEventCreate(&pair.before, CU_EVENT_DEFAULT) != CUDA_SUCCESS) return {};
    if (driver_.cuEventCreate(&pair.after, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
      driver_.cuEventDestroy(pair.before);
      return {};
    }
  }
  if (driver_.cuEventRecord(pair.before, stream) == CUDA_SUCCESS) return pair;
  Push(&idle_, pair);
  return {};
}

void StallTimer::End(Pair pair, CUstream stream) noexcept {
  if (pair.before == nullptr) return;
  const bool recorded = driver_.cuEventRecord(pair.after, stream) == CUDA_SUCCESS;
  Push(recorded ? &pending_ : &idle_, pair);
}

std::uint64_t StallTimer::TakeStalledNs() noexcept {
  std::vector<Pair> pairs;
  {
    std::lock_guard lock(lock_);
    pairs.swap(pending_);
  }
  std::uint64_t stalled_ns = 0;
  for (const Pair& pair : pairs) {
    const bool over = driver_.cuEventQuery(pair.after) == CUDA_SUCCESS;
    float milliseconds = 0.0F;
    if (over && driver_.cuEventElapsedTime(&milliseconds, pair.before, pair.after) == CUDA_SUCCESS && milliseconds > 0)
      stalled_ns += static_cast<std::uint64_t>(static_cast<double>(milliseconds) * 1e6);
    Push(over ? &idle_ : &pending_, pair);
  }
  return stalled_ns;
}

}  // namespace stalloc::runtime
