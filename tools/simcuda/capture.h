// Stream capture and graphs.
//
// Work that is queued on a capturing stream becomes a node of a graph instead. A capture forbids calls that could
// synchronise ("potentially unsafe"), to the threads that its mode and their own mode name; such a call fails with
// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED and makes the capture invalid. Called under the machine's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "address_space.h"
#include "cuda_driver.h"
#include "stream.h"

namespace stalloc::simcuda {

struct ThreadState;

struct GraphNode {
  WorkPtr work;  // null: an order only
  std::vector<std::size_t> after;
};

// Memory that a graph allocates has one address for all launches. It lives as long as the graph or an executable one.
struct GraphMemory {
  GraphMemory(Machine* owner, CUdeviceptr begin, std::uint64_t mapped)
      : machine(owner), address(begin), bytes(mapped) {}
  ~GraphMemory();
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  Machine* const machine;
  const CUdeviceptr address;
  const std::uint64_t bytes;
};

struct Graph {
  std::vector<GraphNode> nodes;  // a node comes after those it follows
  std::vector<std::shared_ptr<GraphMemory>> memory;
};

struct GraphExec {
  std::vector<WorkPtr> works;  // in an order that the nodes allow
  std::vector<std::shared_ptr<GraphMemory>> memory;
};

struct Capture {
  std::uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::uint64_t thread = 0;  // that began it
  Stream* origin = nullptr;
  bool invalid = false;
  bool ended = false;
  std::shared_ptr<Graph> graph;
  std::vector<std::shared_ptr<Stream>> streams;  // that take part
};

// CUDA_SUCCESS, or the error of a potentially unsafe call by this thread; captures that forbid it become invalid.
CUresult CheckUnsafeCall(Machine& machine, const ThreadState& thread);
// The error of work, or of a wait by the host, that includes the legacy stream while a stream that it synchronises with
// is capturing. The capture becomes invalid.
CUresult CheckLegacyUse(Context& context);

CUresult BeginCapture(Machine& machine, const ThreadState& thread, Stream& stream, CUstreamCaptureMode mode);
CUresult EndCapture(Machine& machine, const ThreadState& thread, Stream& stream, std::shared_ptr<Graph>* graph);
// A stream that is destroyed takes no part any more: the capture that began in it ends, another goes on.
void LeaveCapture(Machine& machine, Stream& stream);
CUstreamCaptureStatus CaptureStatus(const Stream& stream);

// Adds a node behind what the stream has captured so far.
CUresult CaptureWork(Stream& stream, WorkPtr work);
// A wait for `record` by `stream`, one of which belongs to a capture: the stream joins it.
CUresult CaptureWait(Stream& stream, const EventRecord& record, bool external);

// Memory nodes.
CUresult CaptureAllocation(Machine& machine, Stream& stream, int device, std::uint64_t size_bytes,
                           CUdeviceptr* address);

std::shared_ptr<GraphExec> Instantiate(const Graph& graph);

}  // namespace stalloc::simcuda
