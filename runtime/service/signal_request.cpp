#include "runtime/service/signal_request.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <ctime>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>

#include "base/signals_blocked.h"

namespace stalloc::runtime {
namespace {

// Made once and never freed: the handler may run during the process's last moments.
struct State {
  int signal = 0;
  std::function<void()> act;
  sem_t requested;
  sem_t ended;
  std::atomic<bool> stop{false};
};
std::atomic<State*> state{nullptr};

extern "C" void StallocSignalHandler(int) {
  const int before = errno;
  if (State* s = state.load(std::memory_order_acquire)) ::sem_post(&s->requested);
  errno = before;
}

// Ours, unless the program has set a handler of its own since.
void RestoreDefault(int signal) noexcept {
  struct sigaction now {};
  if (::sigaction(signal, nullptr, &now) != 0 || now.sa_handler != &StallocSignalHandler) return;
  struct sigaction default_action {};
  default_action.sa_handler = SIG_DFL;
  ::sigaction(signal, &default_action, nullptr);
}

void Loop(State& s) {
  pthread_setname_np(pthread_self(), "stalloc-signal");
  for (;;) {
    while (::sem_wait(&s.requested) != 0 && errno == EINTR) {
    }
    while (::sem_trywait(&s.requested) == 0) {  // several that came meanwhile are one
    }
    if (s.stop.load()) break;
    try {
      s.act();
    } catch (const std::exception&) {  // the next request may have better luck
    }
  }
  ::sem_post(&s.ended);
}

}  // namespace

bool SignalRequest::Start(int signal, std::function<void()> act) {
  struct sigaction before {};
  if (state.load() != nullptr || ::sigaction(signal, nullptr, &before) != 0) return false;
  if ((before.sa_flags & SA_SIGINFO) != 0 || before.sa_handler != SIG_DFL) return false;
  auto* s = new State;
  s->signal = signal;
  s->act = std::move(act);
  ::sem_init(&s->requested, 0, 0);
  ::sem_init(&s->ended, 0, 0);
  try {
    const SignalsBlocked blocked;
    std::thread([s] { Loop(*s); }).detach();
  } catch (const std::system_error&) {
    delete s;
    return false;
  }
  state.store(s, std::memory_order_release);
  struct sigaction action {};
  action.sa_handler = &StallocSignalHandler;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
  return true;
}

void SignalRequest::Stop() noexcept {
  State* s = state.load(std::memory_order_acquire);
  if (s == nullptr || s->stop.exchange(true)) return;
  ::sem_post(&s->requested);
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 2;
  while (::sem_timedwait(&s->ended, &until) != 0 && errno == EINTR) {
  }
}

void SignalRequest::ForkedChild() noexcept {
  State* s = state.exchange(nullptr);
  if (s != nullptr) RestoreDefault(s->signal);
}

}  // namespace stalloc::runtime
