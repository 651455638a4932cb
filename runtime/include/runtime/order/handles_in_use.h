// HandlesInUse: streams and events that threads have taken out of the tables to make driver calls about, without the
// device's lock.
//
// A handle must not end, and come back for something else, in the middle of such a call. So who is about to let the
// driver end a stream or a context first takes it out of the tables, and then waits until nobody has anything of it in
// hands any more. Any thread; takes a lock of its own for a few instructions.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "runtime/base/short_lock.h"

namespace stalloc::runtime {

class HandlesInUse {
 public:
  HandlesInUse() = default;
  HandlesInUse(const HandlesInUse&) = delete;
  HandlesInUse& operator=(const HandlesInUse&) = delete;

  // One thread's calls, for as long as it lives. To be made where the handles are taken out: before the lock is
  // released under which they were found. Calls that may wait for a device's work name what they are about, so that
  // nobody waits for them who that work may be waiting for.
  class Use {
   public:
    // `context` null: events of any context. `stream` null: no stream that could end.
    Use(HandlesInUse& all, CUcontext context, CUstream stream = nullptr) noexcept;
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    friend class HandlesInUse;
    HandlesInUse& all_;
    const CUcontext context_;
    const CUstream stream_;
    std::uint64_t number_;
    Use* previous_ = nullptr;
    Use* next_;
  };

  // Returns when no use is left, of those begun so far, of anything in the context, or of the stream. Not from within
  // one, and without the device's lock.
  void AwaitContext(CUcontext context) noexcept;
  void AwaitStream(CUstream stream) noexcept;

 private:
  template <typename Concerns>
  void Await(Concerns concerns) noexcept;

  ShortLock lock_;
  Use* first_ = nullptr;  // the latest
  std::uint64_t last_number_ = 0;
};

}  // namespace stalloc::runtime
