#include "runtime/order/stall_timer.h"

#include <array>

namespace stalloc::runtime {

namespace {

// More are not measured at once: a program that waits so often is known to.
constexpr std::size_t kMostPairs = 64;

}  // namespace

StallTimer::StallTimer(const DriverApi& driver) : driver_(driver) {
  idle_.reserve(kMostPairs);
  pending_.reserve(kMostPairs);
}

// An idle pair, or an empty one of this generation to be made. False: there are enough.
bool StallTimer::TakeIdle(Pair* pair) noexcept {
  std::lock_guard lock(lock_);
  if (!idle_.empty()) {
    *pair = idle_.back();
    idle_.pop_back();
    return true;
  }
  pair->generation = generation_;
  return made_ < kMostPairs && ++made_ != 0;
}

void StallTimer::Put(std::vector<Pair>* to, const Pair& pair) noexcept {
  std::lock_guard lock(lock_);
  if (pair.generation == generation_) to->push_back(pair);  // there is room for all that were made
}

StallTimer::Pair StallTimer::Begin(CUstream stream) noexcept {
  Pair pair;
  if (driver_.cuEventElapsedTime == nullptr || !TakeIdle(&pair)) return {};
  if (pair.before == nullptr) {
    bool made = driver_.cuEventCreate(&pair.before, CU_EVENT_DEFAULT) == CUDA_SUCCESS;
    if (made && driver_.cuEventCreate(&pair.after, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
      driver_.cuEventDestroy(pair.before);
      made = false;
    }
    if (!made) {
      std::lock_guard lock(lock_);
      if (pair.generation == generation_) --made_;
      return {};
    }
  }
  if (driver_.cuEventRecord(pair.before, stream) == CUDA_SUCCESS) return pair;
  Put(&idle_, pair);
  return {};
}

void StallTimer::End(Pair pair, CUstream stream) noexcept {
  if (pair.before == nullptr) return;
  const bool recorded = driver_.cuEventRecord(pair.after, stream) == CUDA_SUCCESS;
  Put(recorded ? &pending_ : &idle_, pair);
}

std::uint64_t StallTimer::TakeStalledNs() noexcept {
  std::array<Pair, kMostPairs> pairs;
  std::size_t count = 0;
  {
    std::lock_guard lock(lock_);
    for (const Pair& pair : pending_) pairs[count++] = pair;
    pending_.clear();
  }
  std::uint64_t stalled_ns = 0;
  std::size_t over = 0;
  // Waits of one stream are over in their order; the others are asked for as soon as the first of them is.
  for (; over < count && driver_.cuEventQuery(pairs[over].after) != CUDA_ERROR_NOT_READY; ++over) {
    float milliseconds = 0.0F;
    if (driver_.cuEventElapsedTime(&milliseconds, pairs[over].before, pairs[over].after) == CUDA_SUCCESS &&
        milliseconds > 0)
      stalled_ns += static_cast<std::uint64_t>(static_cast<double>(milliseconds) * 1e6);
  }
  std::lock_guard lock(lock_);
  if (count == 0 || pairs[0].generation != generation_) return stalled_ns;
  idle_.insert(idle_.end(), pairs.begin(), pairs.begin() + over);
  pending_.insert(pending_.begin(), pairs.begin() + over, pairs.begin() + count);
  return stalled_ns;
}

void StallTimer::Forget() noexcept {
  std::lock_guard lock(lock_);
  ++generation_;
  made_ = 0;
  idle_.clear();
  pending_.clear();
}

}  // namespace stalloc::runtime
