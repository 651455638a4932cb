#include "scheduler.h"

#include <algorithm>

#include "call.h"
#include "machine.h"

namespace stalloc::simcuda {
namespace {

// A host that asks in a loop loses time by that, so that its loop ends.
constexpr std::uint64_t kPollNs = 1000;

}  // namespace

void Scheduler::Start(std::uint64_t seed, std::size_t max_pending, bool clock) {
  seed_ = seed;
  random_ = seed * 2 + 1;
  max_pending_ = max_pending;
  clock_ = clock;
}

void Scheduler::Stop() {
  machine_->host_thread.Stop();
  // Operations of two streams may wait for each other's past: take them apart.
  for (const std::shared_ptr<Stream>& stream : active_) stream->queue.clear();
  active_.clear();
}

std::uint64_t Scheduler::Draw(std::uint64_t limit) {  // xorshift64*
  random_ ^= random_ >> 12;
  random_ ^= random_ << 25;
  random_ ^= random_ >> 27;
  return (random_ * 0x2545f4914f6cdd1dull >> 33) % limit;
}

void Scheduler::Activate(Stream& stream) {
  stream.active_index = active_.size();
  active_.push_back(stream.shared_from_this());
}

void Scheduler::Deactivate(Stream& stream) {
  active_.back()->active_index = stream.active_index;
  std::swap(active_[stream.active_index], active_.back());
  active_.pop_back();
}

void Scheduler::Queue(Stream& stream, WorkPtr work, std::vector<Fence> after) {
  std::erase_if(after, [](const Fence& fence) { return fence.Passed(); });
  // The legacy stream and blocking streams of a context follow each other's earlier work.
  if (stream.kind == Stream::Kind::kLegacy) {
    for (const std::shared_ptr<Stream>& other : stream.context->streams) {
      if (other->kind == Stream::Kind::kBlocking && !other->idle()) after.push_back(other->Here());
    }
  } else if (stream.kind == Stream::Kind::kBlocking && !stream.context->legacy->idle()) {
    after.push_back(stream.context->legacy->Here());
  }
  if (stream.queue.empty()) Activate(stream);
  stream.queue.push_back({std::move(after), std::move(work), machine_->ledger.virtual_time_ns()});
  ++stream.queued;
  const WorkPtr& queued = stream.queue.back().work;
  if (queued != nullptr && queued->runs_on_host()) machine_->host_thread.Expect(stream.Here());
  if (stream.queue.size() > max_pending_) Wait({stream.shared_from_this(), stream.queued - max_pending_});
}

const Fence* Scheduler::Blocker(Stream& stream) {
  std::vector<Fence>& after = stream.queue.front().after;
  while (!after.empty() && after.back().Passed()) {
    stream.clock_ns = std::max(stream.clock_ns, after.back().stream->clock_ns);
    after.pop_back();
  }
  return after.empty() ? nullptr : &after.back();
}

std::uint64_t Scheduler::EndOf(const Stream& stream) const {
  const Operation& head = stream.queue.front();
  return std::max(stream.clock_ns, head.queued_at_ns) + (head.work != nullptr ? head.work->duration_ns : 0);
}

void Scheduler::RunUntilNow() {
  const std::uint64_t now = machine_->ledger.virtual_time_ns();
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t i = 0; i < active_.size();) {
      Stream& stream = *active_[i];
      const std::size_t active = active_.size();
      while (active_.size() == active && !stream.on_host && Blocker(stream) == nullptr && EndOf(stream) <= now) {
        RunHead(stream);
        progress = true;
      }
      if (active_.size() == active) ++i;  // otherwise another stream has taken this place
    }
  }
}

void Scheduler::RunHead(Stream& stream) {
  const Operation& head = stream.queue.front();
  stream.clock_ns = std::max(stream.clock_ns, head.queued_at_ns);
  if (head.work != nullptr && stream.context->error == CUDA_SUCCESS) {
    if (head.work->runs_on_host()) return machine_->host_thread.Run(stream.shared_from_this());
    stream.clock_ns += head.work->duration_ns;
    if (const CUresult error = head.work->Run(*machine_, stream)) stream.context->error = error;
  }
  Complete(stream);
}

void Scheduler::Complete(Stream& stream) {
  const std::shared_ptr<Stream> keep = stream.shared_from_this();
  const Operation done = std::move(stream.queue.front());
  stream.queue.pop_front();
  ++stream.completed;
  if (!stream.queue.empty()) return;
  Deactivate(stream);
  if (stream.destroyed) std::erase(stream.context->streams, keep);
}

bool Scheduler::RunAny() {
  const std::size_t count = active_.size();
  if (count == 0) return false;
  const std::size_t first = Draw(count);
  for (std::size_t i = 0; i < count; ++i) {
    Stream& stream = *active_[(first + i) % count];
    if (stream.on_host || Blocker(stream) != nullptr) continue;
    RunHead(stream);
    return true;
  }
  return false;
}

bool Scheduler::Step(const Fence& fence) {
  Fence nearest = fence;
  for (;;) {
    Stream& stream = *nearest.stream;
    if (stream.on_host) return false;
    const Fence* blocker = Blocker(stream);
    if (blocker == nullptr) {
      RunHead(stream);
      return true;
    }
    nearest = *blocker;
  }
}

void Scheduler::Wait(const Fence& fence) {
  if (clock_) {
    while (!fence.Passed()) {
      if (!Step(fence)) machine_->host_function_done.wait(machine_->mutex);
    }
    // What the stream has done beyond the fence the host does not wait for, but it has done nothing beyond.
    machine_->ledger.AdvanceTo(fence.stream->clock_ns);
    return;
  }
  while (!fence.Passed()) {
    // Meanwhile the other streams go on as well.
    if (!Lazy() && Draw(4) == 0 && RunAny()) continue;
    if (!Step(fence)) machine_->host_function_done.wait(machine_->mutex);
  }
}

bool Scheduler::Poll(const Fence& fence) {
  if (fence.Passed()) return true;
  if (clock_) {
    RunUntilNow();
    if (!fence.Passed()) machine_->ledger.AddCost(kPollNs);
    return fence.Passed();
  }
  if (!Lazy()) {
    for (std::uint64_t steps = Draw(4); steps > 0; --steps) RunAny();
    if (Draw(2) == 0) return fence.Passed();
  }
  if (!fence.Passed()) Step(fence);
  return fence.Passed();
}

std::vector<Fence> Scheduler::FencesOf(Stream& stream) {
  std::vector<Fence> fences = {stream.Here()};
  if (stream.kind == Stream::Kind::kLegacy) {  // includes what its next operation would follow
    for (const std::shared_ptr<Stream>& other : stream.context->streams) {
      if (other->kind == Stream::Kind::kBlocking) fences.push_back(other->Here());
    }
  }
  return fences;
}

bool Scheduler::PollStream(Stream& stream) {
  bool done = true;
  for (const Fence& fence : FencesOf(stream)) done = Poll(fence) && done;
  return done;
}

void Scheduler::WaitForStream(Stream& stream) {
  for (const Fence& fence : FencesOf(stream)) Wait(fence);
}

// The primary context's green contexts are waited for with it.
void Scheduler::WaitForContext(Context& context) {
  std::vector<Fence> fences;
  for (const std::shared_ptr<Context>& other : machine_->all_contexts) {
    if (other.get() != &context && (!other->alive || other->memory_of != &context)) continue;
    for (const std::shared_ptr<Stream>& stream : other->streams) fences.push_back(stream->Here());
    if (other->legacy != nullptr) fences.push_back(other->legacy->Here());
  }
  for (const Fence& fence : fences) Wait(fence);
}

void Scheduler::WaitForDevice(int device) {
  const std::vector<std::shared_ptr<Context>> contexts = machine_->all_contexts;
  for (const std::shared_ptr<Context>& context : contexts) {
    if (context->device == device && context->alive) WaitForContext(*context);
  }
}

std::size_t Scheduler::Advance(std::size_t steps) {
  std::size_t done = 0;
  while (done < steps && RunAny()) ++done;
  return done;
}

std::size_t Scheduler::pending_operations() const {
  std::size_t pending = 0;
  for (const std::shared_ptr<Stream>& stream : active_) pending += stream->queue.size();
  return pending;
}

}  // namespace stalloc::simcuda
