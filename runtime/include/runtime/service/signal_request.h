// SignalRequest: something that is done whenever a signal comes, by a thread of its own.
//
// The handler only posts a semaphore, which is all that a handler may do; the thread, which is there only where the
// user has asked for the signal, does the work. The program's own handling comes first: where the signal is not at its
// default when this starts, nothing is installed, and a handler that the program sets later takes its place.
#pragma once

#include <functional>

namespace stalloc::runtime {

// At most one in a process. Start and Stop: one thread at a time.
class SignalRequest {
 public:
  // Returns false, and does nothing, if the program handles or ignores `signal` already, or no thread can be made.
  static bool Start(int signal, std::function<void()> act);

  // No action begins after this returns; one in progress is waited for, for two seconds at most.
  static void Stop() noexcept;

  // In a forked child, which has no such thread: the signal means what it meant before.
  static void ForkedChild() noexcept;
};

}  // namespace stalloc::runtime
