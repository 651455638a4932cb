// LearningThread: the background thread that steps every device's learner.
//
// Started by the first device that is served, with all signals blocked. It makes driver calls (views are mapped when a
// plan is put in force), so Stop waits until it is out of them; after that it makes none.
#pragma once

#include <cuda.h>

#include <condition_variable>
#include <mutex>
#include <vector>

#include "runtime/base/driver_api.h"
#include "runtime/learning/learner.h"

namespace stalloc::runtime {

class LearningThread {
 public:
  explicit LearningThread(const DriverApi& driver) : driver_(driver) {}

  // Adds a device; `context` is made current while its learner steps. Throws, and has not added it, where the host has
  // no memory or no thread for it.
  void Add(Learner* learner, CUcontext context);

  // Takes a device out, once its learner is not stepping.
  void Remove(Learner* learner);

  // Ends the thread's work. Returns when it makes no more driver calls.
  void Stop();

 private:
  struct Entry {
    Learner* learner;
    CUcontext context;
  };
  bool Step(const Entry& entry) noexcept;
  void Loop();

  const DriverApi& driver_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Entry> entries_;
  bool running_ = false;
  bool stop_ = false;
  bool stepping_ = false;
};

}  // namespace stalloc::runtime
