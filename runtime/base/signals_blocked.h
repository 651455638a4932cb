// SignalsBlocked: blocks every signal while it lives, so that a thread started meanwhile has them blocked: the
// program's handlers must never run on a thread that the program does not know.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace stalloc::runtime {

class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace stalloc::runtime
