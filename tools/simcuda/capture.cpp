#include "capture.h"

#include <algorithm>

#include "call.h"
#include "machine.h"
#include "work.h"

namespace stalloc::simcuda {
namespace {

bool IsAncestor(const Graph& graph, std::size_t ancestor, const std::vector<std::size_t>& of) {
  std::vector<std::size_t> open = of;
  std::vector<bool> seen(graph.nodes.size());
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    if (node == ancestor) return true;
    if (seen[node]) continue;
    seen[node] = true;
    open.insert(open.end(), graph.nodes[node].after.begin(), graph.nodes[node].after.end());
  }
  return false;
}

// Everything that a side stream captured must lead to what the origin captured last.
bool AllJoined(const Capture& capture) {
  for (const std::shared_ptr<Stream>& stream : capture.streams) {
    if (stream.get() == capture.origin) continue;
    for (const std::size_t node : stream->capture_tail) {
      if (!IsAncestor(*capture.graph, node, capture.origin->capture_tail)) return false;
    }
  }
  return true;
}

void Join(Stream& stream, const std::shared_ptr<Capture>& capture) {
  stream.capture = capture;
  stream.capture_tail.clear();
  capture->streams.push_back(stream.shared_from_this());
}

void Close(Machine& machine, const std::shared_ptr<Capture>& capture) {
  capture->ended = true;
  for (const std::shared_ptr<Stream>& member : capture->streams) {
    member->capture.reset();
    member->capture_tail.clear();
  }
  capture->streams.clear();
  std::erase(machine.captures, capture);
}

}  // namespace

CUresult CheckUnsafeCall(Machine& machine, const ThreadState& thread) {
  if (machine.captures.empty() || thread.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  for (const std::shared_ptr<Capture>& capture : machine.captures) {
    const bool own = capture->thread == thread.id;
    const bool forbids =
        own ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
            : capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!forbids) continue;
    capture->invalid = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

CUresult CheckLegacyUse(Context& context) {
  CUresult result = CUDA_SUCCESS;
  for (const std::shared_ptr<Stream>& stream : context.streams) {
    if (stream->capture == nullptr || stream->kind != Stream::Kind::kBlocking) continue;
    stream->capture->invalid = true;
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return result;
}

CUresult InvalidateCaptures(Context& context) {
  CUresult result = CUDA_SUCCESS;
  for (const std::shared_ptr<Stream>& stream : context.streams) {
    if (stream->capture == nullptr) continue;
    stream->capture->invalid = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

CUresult BeginCapture(Machine& machine, const ThreadState& thread, Stream& stream, CUstreamCaptureMode mode,
                      std::shared_ptr<Graph> graph, std::vector<std::size_t> tail) {
  if (stream.kind == Stream::Kind::kLegacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream.capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->id = machine.NextId();
  capture->mode = mode;
  capture->thread = thread.id;
  capture->origin = &stream;
  capture->appends = graph != nullptr;
  capture->graph = capture->appends ? std::move(graph) : NewGraph(machine);
  Join(stream, capture);
  stream.capture_tail = std::move(tail);
  machine.captures.push_back(std::move(capture));
  return CUDA_SUCCESS;
}

CUresult EndCapture(Machine& machine, const ThreadState& thread, Stream& stream, std::shared_ptr<Graph>* graph) {
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != &stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->thread != thread.id && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  CUresult result = CUDA_SUCCESS;
  if (capture->invalid)
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  else if (!AllJoined(*capture))
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  Close(machine, capture);
  if (result == CUDA_SUCCESS)
    *graph = capture->graph;
  else if (!capture->appends)
    machine.graphs.Remove(capture->graph->handle);
  return result;
}

void LeaveCapture(Machine& machine, Stream& stream) {
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr) return;
  if (capture->origin == &stream) {
    capture->invalid = true;
    if (!capture->appends) machine.graphs.Remove(capture->graph->handle);
    return Close(machine, capture);
  }
  // The others' capture goes on (H200); what this one has captured must still lead to the origin.
  stream.capture.reset();
}

CUstreamCaptureStatus CaptureStatus(const Stream& stream) {
  if (stream.capture == nullptr) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream.capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult CaptureNode(Stream& stream, GraphNode node) {
  if (stream.capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  node.after = std::move(stream.capture_tail);
  stream.capture_tail = {stream.capture->graph->Add(std::move(node))};
  return CUDA_SUCCESS;
}

CUresult CaptureWork(Stream& stream, WorkPtr work) {
  GraphNode node;
  node.work = std::move(work);
  return CaptureNode(stream, std::move(node));
}

CUresult CaptureWait(Stream& stream, const std::shared_ptr<Event>& event, bool external) {
  const EventRecord& record = *event->record;
  if (record.capture == nullptr) {
    if (external) return CaptureWork(stream, std::make_shared<WaitForRecord>(event));
    stream.capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (record.capture->ended) return CUDA_ERROR_CAPTURED_EVENT;
  if (record.capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream.kind == Stream::Kind::kLegacy) {
    record.capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  if (stream.capture == nullptr) Join(stream, record.capture);
  if (stream.capture != record.capture) {
    stream.capture->invalid = record.capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  for (const std::size_t node : record.capture_nodes) {
    if (std::find(stream.capture_tail.begin(), stream.capture_tail.end(), node) == stream.capture_tail.end())
      stream.capture_tail.push_back(node);
  }
  return CUDA_SUCCESS;
}

CUresult CaptureAllocation(Machine& machine, Stream& stream, int device, std::uint64_t size_bytes,
                           CUdeviceptr* address) {
  if (stream.capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  GraphNode node;
  node.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  node.memory_bytes = size_bytes;
  if (const CUresult error = AllocateGraphMemory(machine, *stream.capture->graph, device, size_bytes, &node.memory))
    return error;
  *address = node.memory;
  return CaptureNode(stream, std::move(node));
}

}  // namespace stalloc::simcuda
