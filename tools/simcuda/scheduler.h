// Scheduler: when queued work executes.
//
// A device does nothing by itself. It goes on while the host waits (for as long as that takes), a little when the host
// asks whether something is done, and when a stream holds back more than it may. Which stream's turn it is is drawn
// from the seed, so that runs repeat; with seed 0 nothing executes but what a wait needs.
//
// With a clock, what executes is what the model says has ended by now: work takes its duration from when it was queued
// and its stream was ready; the host's time is what its calls cost, and what it waited for. Runs repeat likewise.
// Called under the machine's
// lock, which Wait releases while it waits for a host function.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "stream.h"

namespace stalloc::simcuda {

class Scheduler {
 public:
  explicit Scheduler(Machine* machine) : machine_(machine) {}

  void Start(std::uint64_t seed, std::size_t max_pending, bool clock);
  void Stop();  // forgets everything that is queued

  // Queues work behind the stream's earlier work, `after`, and what the legacy stream's rules ask for.
  void Queue(Stream& stream, WorkPtr work, std::vector<Fence> after = {});

  // Executes until the fence has passed.
  void Wait(const Fence& fence);
  void WaitForStream(Stream& stream);
  void WaitForContext(Context& context);
  void WaitForDevice(int device);

  // Asked whether `fence` has passed: makes some progress, then answers.
  bool Poll(const Fence& fence);
  bool PollStream(Stream& stream);
  // Executes up to `steps` operations of any streams. Returns how many it did.
  std::size_t Advance(std::size_t steps);

  // Executes one operation that brings a fence nearer that has not passed. False if it waits for a host function.
  bool Step(const Fence& fence);
  // Takes the head off, whose work is done.
  void Complete(Stream& stream);

  std::size_t pending_operations() const;

 private:
  // Everything whose modelled end the host's time has reached.
  void RunUntilNow();
  std::uint64_t EndOf(const Stream& stream) const;  // of the head, which is not blocked
  bool Lazy() const { return seed_ == 0; }
  std::uint64_t Draw(std::uint64_t limit);      // in [0, limit)
  std::vector<Fence> FencesOf(Stream& stream);  // what a wait for the stream waits for
  const Fence* Blocker(Stream& stream);         // an unpassed fence of the head, or null
  void RunHead(Stream& stream);                 // or hands it to the host thread
  bool RunAny();  // one operation of a stream that the seed chooses; false if there is none
  void Activate(Stream& stream);
  void Deactivate(Stream& stream);

  Machine* machine_;
  std::uint64_t seed_ = 1;
  std::uint64_t random_ = 1;
  std::size_t max_pending_ = 0;
  bool clock_ = false;
  std::vector<std::shared_ptr<Stream>> active_;  // streams with queued work
};

}  // namespace stalloc::simcuda
