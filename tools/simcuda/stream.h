// Streams as queues that lag behind the host, and what stands in them. Called under the machine's lock.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "cuda_driver.h"

namespace stalloc::simcuda {

struct Capture;
struct Context;
struct Machine;
struct Stream;

// Everything that was queued on `stream` up to `position` has executed.
struct Fence {
  std::shared_ptr<Stream> stream;
  std::uint64_t position = 0;

  bool Passed() const;
};

// Something that a device does when its turn comes. A captured graph runs the same work many times.
class Work {
 public:
  explicit Work(std::uint64_t duration = 0) : duration_ns(duration) {}
  virtual ~Work() = default;

  // An error is sticky in the stream's context.
  virtual CUresult Run(Machine& machine, Stream& stream) = 0;
  // Calls back into the program: then RunOnHost is called instead of Run, without the lock.
  virtual bool runs_on_host() const { return false; }
  virtual void RunOnHost() {}
  // Once it stands in the queue; and what has to pass before it, as far as it is known then.
  virtual void Queued(Stream&) {}
  virtual std::vector<Fence> After() const { return {}; }
  // What it is in a graph.
  virtual CUgraphNodeType node_type() const { return CU_GRAPH_NODE_TYPE_EMPTY; }

  const std::uint64_t duration_ns;
};

using WorkPtr = std::shared_ptr<Work>;

struct Operation {
  std::vector<Fence> after;
  WorkPtr work;  // null: a wait only
  std::uint64_t queued_at_ns = 0;
};

struct Stream : std::enable_shared_from_this<Stream> {
  enum class Kind : std::uint8_t { kLegacy, kBlocking, kNonBlocking };

  Context* context = nullptr;
  Kind kind = Kind::kBlocking;
  unsigned flags = 0;
  int priority = 0;
  std::uint64_t id = 0;  // unique in the process; handles are not

  std::deque<Operation> queue;
  std::uint64_t queued = 0;     // operations so far
  std::uint64_t completed = 0;  // those that have executed
  std::uint64_t clock_ns = 0;   // device time at which the last one ended
  bool on_host = false;         // the head is a host function whose turn has come
  bool destroyed = false;
  std::size_t active_index = 0;  // the scheduler's

  std::shared_ptr<Capture> capture;               // the capture that this stream takes part in
  std::vector<std::size_t> capture_tail;          // nodes that the next captured one follows
  std::vector<CUgraphNode> capture_dependencies;  // their handles, as a program was last told

  bool idle() const { return completed == queued; }
  Fence Here() { return {shared_from_this(), queued}; }
};

inline bool Fence::Passed() const { return stream->completed >= position; }

struct EventRecord {
  Fence fence;  // after the recording operation
  std::uint64_t time_ns = 0;
  std::shared_ptr<Capture> capture;  // recorded in a capture: the event then stands for these nodes
  std::vector<std::size_t> capture_nodes;
};

struct Event {
  Context* context = nullptr;
  unsigned flags = 0;
  std::shared_ptr<EventRecord> record;  // null: never recorded, which counts as passed
};

}  // namespace stalloc::simcuda
