#include "runtime/order/handles_in_use.h"

#include <time.h>

#include <mutex>

#include "runtime/base/cancellation_off.h"

namespace stalloc::runtime {

namespace {
// Nearly all calls are over by then.
constexpr long kNapNs = 20'000;
}  // namespace

HandlesInUse::Use::Use(HandlesInUse& all, CUcontext context, CUstream stream) noexcept
    : all_(all), context_(context), stream_(stream) {
  const std::lock_guard lock(all_.lock_);
  number_ = ++all_.last_number_;
  next_ = all_.first_;
  if (next_ != nullptr) next_->previous_ = this;
  all_.first_ = this;
}

HandlesInUse::Use::~Use() {
  const std::lock_guard lock(all_.lock_);
  (previous_ != nullptr ? previous_->next_ : all_.first_) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

// Uses that begin later have found nothing of what ends.
template <typename Concerns>
void HandlesInUse::Await(Concerns concerns) noexcept {
  const CancellationOff no_cancellation;
  std::uint64_t last = 0;
  for (;;) {
    bool left = false;
    {
      const std::lock_guard lock(lock_);
      if (last == 0) last = last_number_;
      for (const Use* use = first_; use != nullptr; use = use->next_)
        left = left || (use->number_ <= last && concerns(*use));
    }
    if (!left) return;
    const timespec nap{0, kNapNs};
    ::nanosleep(&nap, nullptr);
  }
}

void HandlesInUse::AwaitContext(CUcontext context) noexcept {
  Await([&](const Use& use) { return use.context_ == nullptr || use.context_ == context; });
}

void HandlesInUse::AwaitStream(CUstream stream) noexcept {
  if (stream != nullptr) Await([&](const Use& use) { return use.stream_ == stream; });
}

}  // namespace stalloc::runtime
