// HostThread: the driver's own thread, which runs host functions.
//
// As with the real driver they run neither on the thread that queued them nor on one that waits or asks, so that a
// function may wait for something that those threads do later. When a program does nothing but wait for a host function
// by other means than CUDA's, this thread makes the device go on after a while. It starts with the first host function.
// Members are called under the machine's lock; the functions run without it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>

#include "stream.h"

namespace stalloc::simcuda {

class HostThread {
 public:
  explicit HostThread(Machine* machine) : machine_(machine) {}

  // A host function was queued; `fence` passes when it has run.
  void Expect(Fence fence);
  // The stream's head is a host function whose turn has come.
  void Run(std::shared_ptr<Stream> stream);
  // Forgets what is expected, and waits until the thread runs nothing.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;

  struct Expected {
    Fence fence;
    Clock::time_point due;
  };

  void Loop();
  void RunOne();
  void WaitForWork();

  Machine* machine_;
  bool started_ = false;
  bool running_ = false;
  std::condition_variable_any work_;
  std::deque<std::shared_ptr<Stream>> ready_;
  std::deque<Expected> expected_;
};

}  // namespace stalloc::simcuda
