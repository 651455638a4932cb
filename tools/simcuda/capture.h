// Stream capture.
//
// Work that is queued on a capturing stream becomes a node of a graph instead. A capture forbids calls that could
// synchronise ("potentially unsafe"), to the threads that its mode and their own mode name; such a call fails with
// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED and makes the capture invalid. Called under the machine's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda_driver.h"
#include "graph.h"
#include "stream.h"

namespace stalloc::simcuda {

struct ThreadState;

struct Capture {
  std::uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::uint64_t thread = 0;  // that began it
  Stream* origin = nullptr;
  bool invalid = false;
  bool ended = false;
  std::shared_ptr<Graph> graph;
  bool appends = false;                          // to a graph of the program's, which outlives a failure
  std::vector<std::shared_ptr<Stream>> streams;  // that take part
};

// CUDA_SUCCESS, or the error of a potentially unsafe call by this thread; captures that forbid it become invalid.
CUresult CheckUnsafeCall(Machine& machine, const ThreadState& thread);
// The error of work, or of a wait by the host, that includes the legacy stream while a stream that it synchronises with
// is capturing. The capture becomes invalid.
CUresult CheckLegacyUse(Context& context);
// The error of a wait for all work of the context while any of its streams is capturing, whatever the modes (H200).
CUresult InvalidateCaptures(Context& context);

// `graph`: to append to, behind the nodes `tail`; null: a new one.
CUresult BeginCapture(Machine& machine, const ThreadState& thread, Stream& stream, CUstreamCaptureMode mode,
                      std::shared_ptr<Graph> graph = nullptr, std::vector<std::size_t> tail = {});
CUresult EndCapture(Machine& machine, const ThreadState& thread, Stream& stream, std::shared_ptr<Graph>* graph);
// A stream that is destroyed takes no part any more: the capture that began in it ends, another goes on.
void LeaveCapture(Machine& machine, Stream& stream);
CUstreamCaptureStatus CaptureStatus(const Stream& stream);

// Adds a node behind what the stream has captured so far.
CUresult CaptureNode(Stream& stream, GraphNode node);
CUresult CaptureWork(Stream& stream, WorkPtr work);
// A wait for `event`, which was recorded, by `stream`, one of which belongs to a capture: the stream joins it. An
// external wait is a node that waits, at each launch, for what the event then stands for.
CUresult CaptureWait(Stream& stream, const std::shared_ptr<Event>& event, bool external);

// Memory nodes.
CUresult CaptureAllocation(Machine& machine, Stream& stream, int device, std::uint64_t size_bytes,
                           CUdeviceptr* address);

}  // namespace stalloc::simcuda
