#include "host_thread.h"

#include <thread>

#include "call.h"
#include "machine.h"

namespace stalloc::simcuda {
namespace {

// How long a host function may lag when nobody waits for its stream.
constexpr std::chrono::milliseconds kPatience{20};

}  // namespace

void HostThread::Expect(Fence fence) {
  expected_.push_back({std::move(fence), Clock::now() + kPatience});
  if (!started_) {
    started_ = true;
    std::thread([this] { Loop(); }).detach();  // it lives as long as the process
  }
  work_.notify_one();
}

void HostThread::Run(std::shared_ptr<Stream> stream) {
  stream->on_host = true;
  ready_.push_back(std::move(stream));
  work_.notify_one();
}

void HostThread::Stop() {
  expected_.clear();
  for (const std::shared_ptr<Stream>& stream : ready_) stream->on_host = false;
  ready_.clear();
  while (running_) machine_->host_function_done.wait(machine_->mutex);
}

void HostThread::RunOne() {
  const std::shared_ptr<Stream> stream = ready_.front();
  ready_.pop_front();
  const WorkPtr function = stream->queue.front().work;
  running_ = true;
  machine_->mutex.unlock();
  function->RunOnHost();
  machine_->mutex.lock();
  running_ = false;
  stream->on_host = false;
  machine_->scheduler.Complete(*stream);
  machine_->host_function_done.notify_all();
}

void HostThread::WaitForWork() {
  if (expected_.empty()) return work_.wait(machine_->mutex);
  const Clock::time_point due = expected_.front().due;
  if (Clock::now() < due) {
    work_.wait_until(machine_->mutex, due);
    return;
  }
  if (expected_.front().fence.Passed() || !machine_->scheduler.Step(expected_.front().fence)) expected_.pop_front();
}

void HostThread::Loop() {
  machine_->mutex.lock();
  ThreadState::Get(*machine_).on_host_function = true;  // it makes no calls but those of host functions
  for (;;) {
    if (ready_.empty())
      WaitForWork();
    else
      RunOne();
  }
}

}  // namespace stalloc::simcuda
