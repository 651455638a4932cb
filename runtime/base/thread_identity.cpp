#include "runtime/base/thread_identity.h"

#include <pthread.h>

#include <mutex>
#include <vector>

namespace stalloc::runtime {

constinit thread_local ThreadIdentity t_identity __attribute__((tls_model("initial-exec"))) = {};

namespace {

// What says whether a thread lives is handed on to a later one when it has ended, under another number: who remembers
// the first sees that it is gone, and there are as many of these as threads at a time.
using Living = std::atomic<std::uint64_t>;

struct Threads {
  std::mutex mutex;
  std::uint64_t last_number = 0;
  std::vector<Living*> unused;
  pthread_key_t end{};
  bool has_end = false;

  Threads() : has_end(pthread_key_create(&end, &Threads::End) == 0) {}

  // Later destructors of the thread may name its stream again: then it is taken for another thread, which is safe.
  static void End(void* living) noexcept;
};

// Never destroyed: threads may end after everything else.
Threads& AllThreads() {
  static Threads& threads = *new Threads;
  return threads;
}

void Threads::End(void* living) noexcept {
  auto* const ended = static_cast<Living*>(living);
  t_identity = {};
  ended->store(0, std::memory_order_release);
  const std::lock_guard lock(AllThreads().mutex);
  AllThreads().unused.push_back(ended);  // there is room: see IdentifyThread
}

}  // namespace

ThreadIdentity IdentifyThread() {
  Threads& threads = AllThreads();
  const std::lock_guard lock(threads.mutex);
  Living* living = nullptr;
  if (threads.unused.empty()) {
    threads.unused.reserve(threads.unused.capacity() + 1);
    living = new Living(0);
  } else {
    living = threads.unused.back();
    threads.unused.pop_back();
  }
  const std::uint64_t number = ++threads.last_number;
  living->store(number, std::memory_order_release);
  if (threads.has_end) pthread_setspecific(threads.end, living);  // else it lives for ever
  return t_identity = {number, living};
}

}  // namespace stalloc::runtime
