#include "runtime/following/seen_log.h"

#include <cstddef>
#include <utility>

namespace stalloc::runtime {

namespace {

// Put down but not yet fetched by the learner.
constexpr std::size_t kMost = std::size_t{1} << 18;
// As many as most programs make until the learner looks again: the kernel gives the room for them beforehand, and not
// one page after the other to requests that hold the lock.
constexpr std::size_t kUsual = std::size_t{1} << 14;

}  // namespace

void SeenLog::MakeRoom(std::vector<Entry>* entries) {
  entries->clear();
  if (entries->capacity() >= kMost) return;
  entries->reserve(kMost);
  entries->resize(kUsual);
  entries->clear();
}

void SeenLog::Set(bool on, std::vector<Entry>* room) noexcept {
  if (on == this->on()) return;
  entries_.swap(*room);
  lost_ = false;
  on_.store(on, std::memory_order_relaxed);
}

bool SeenLog::Take(std::vector<Entry>* room) noexcept {
  entries_.swap(*room);
  return std::exchange(lost_, false);
}

}  // namespace stalloc::runtime
