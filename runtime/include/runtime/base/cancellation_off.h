// CancellationOff: the calling thread is not cancelled (pthread_cancel) for as long as one of these lives.
//
// Sleeping, waiting and writing are points at which a thread is cancelled, by an exception that runs through its stack.
// Hooks let no exception out: it would end the process. What the program has asked for happens at its own next such
// point. Any thread; allocates nothing; some nanoseconds.
#pragma once

#include <pthread.h>

namespace stalloc::runtime {

class CancellationOff {
 public:
  CancellationOff() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~CancellationOff() {
    int disabled = 0;
    ::pthread_setcancelstate(before_, &disabled);
  }
  CancellationOff(const CancellationOff&) = delete;
  CancellationOff& operator=(const CancellationOff&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace stalloc::runtime
