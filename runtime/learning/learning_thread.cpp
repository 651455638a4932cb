#include "runtime/learning/learning_thread.h"

#include <pthread.h>

#include <chrono>
#include <thread>

#include "base/signals_blocked.h"
#include "runtime/base/log.h"

namespace stalloc::runtime {

namespace {
constexpr auto kPause = std::chrono::milliseconds(10);
}

void LearningThread::Add(Learner* learner, CUcontext context) {
  std::lock_guard lock(mutex_);
  entries_.push_back({learner, context});
  if (running_ || stop_) return;
  try {
    const SignalsBlocked blocked;
    std::thread([this] { Loop(); }).detach();
  } catch (const std::exception&) {  // the next device's may be had
    entries_.pop_back();
    throw;
  }
  running_ = true;
}

void LearningThread::Remove(Learner* learner) {
  std::unique_lock lock(mutex_);
  std::erase_if(entries_, [&](const Entry& entry) { return entry.learner == learner; });
  wake_.wait_for(lock, std::chrono::seconds(2), [&] { return !stepping_; });
}

void LearningThread::Stop() {
  std::unique_lock lock(mutex_);
  stop_ = true;
  for (const Entry& entry : entries_) entry.learner->End();
  wake_.notify_all();
  // A planning run has a deadline; a driver that no longer answers must not hold up the program's exit for ever.
  wake_.wait_for(lock, std::chrono::seconds(2), [&] { return !stepping_; });
}

// False: the host has no memory for it. What it has understood by then may be half a thing.
bool LearningThread::Step(const Entry& entry) noexcept {
  try {
    if (driver_.cuCtxSetCurrent(entry.context) == CUDA_SUCCESS) entry.learner->Step();
    return true;
  } catch (const std::exception&) {
    LogWarn("the host is out of memory: on one device nothing more is learned and planned");
    entry.learner->GiveUp();
    return false;
  }
}

void LearningThread::Loop() {
  pthread_setname_np(pthread_self(), "stalloc-learn");
  std::unique_lock lock(mutex_);
  while (!stop_) {
    wake_.wait_for(lock, kPause);
    for (std::size_t i = 0; i < entries_.size() && !stop_; ++i) {
      const Entry entry = entries_[i];
      stepping_ = true;
      lock.unlock();
      const bool goes_on = Step(entry);
      lock.lock();
      if (!goes_on) std::erase_if(entries_, [&](const Entry& other) { return other.learner == entry.learner; });
      stepping_ = false;
      wake_.notify_all();
    }
  }
}

}  // namespace stalloc::runtime
