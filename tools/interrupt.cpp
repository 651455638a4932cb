#include "tools/interrupt.h"

#include <ctime>

namespace stalloc::tools {
namespace {

sigset_t OnlyInterrupt() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

Interrupt::Interrupt(std::optional<std::chrono::steady_clock::duration> deadline) : deadline_(deadline) {
  const sigset_t signals = OnlyInterrupt();
  ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
  waiter_ = std::jthread([this](const std::stop_token& over) { Await(over); });
}

Interrupt::~Interrupt() {
  waiter_.request_stop();
  waiter_.join();
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Interrupt::Await(const std::stop_token& over) {
  const sigset_t signals = OnlyInterrupt();
  const timespec look_every{0, 100'000'000};
  while (!over.stop_requested()) {
    if (deadline_ && std::chrono::steady_clock::now() - start_ >= *deadline_) asked_.request_stop();
    if (::sigtimedwait(&signals, nullptr, &look_every) != SIGINT) continue;
    by_user_ = true;
    asked_.request_stop();
    ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);  // the next one ends the process
    return;
  }
}

}  // namespace stalloc::tools
