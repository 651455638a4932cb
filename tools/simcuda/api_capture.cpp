// Entry points of stream capture and graph launch that take a stream. Compiled twice: see per_thread_default_stream.h.
#include "call.h"
#include "per_thread_default_stream.h"

namespace stalloc::simcuda {
namespace {

// The list of dependencies is the stream's, until it is asked for again.
void WriteCaptureInfo(Stream& stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                      const CUgraphNode** dependencies, std::size_t* count) {
  *status = CaptureStatus(stream);
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return;
  if (id != nullptr) *id = stream.capture->id;
  Graph& captured = *stream.capture->graph;
  if (graph != nullptr) *graph = captured.handle;
  if (dependencies != nullptr) {
    stream.capture_dependencies.clear();
    for (const std::size_t node : stream.capture_tail) stream.capture_dependencies.push_back(captured.HandleOf(node));
    *dependencies = stream.capture_dependencies.data();
  }
  if (count != nullptr) *count = stream.capture_tail.size();
}

// The nodes' numbers in `graph`. False if one is not in it.
bool NumbersOf(Call& call, const Graph& graph, const CUgraphNode* nodes, std::size_t count,
               std::vector<std::size_t>* numbers) {
  for (std::size_t i = 0; i < count; ++i) {
    std::shared_ptr<Graph> owner;
    std::size_t index = 0;
    if (!FindNode(call.machine, nodes[i], &owner, &index) || owner.get() != &graph) return false;
    numbers->push_back(index);
  }
  return true;
}

CUresult UpdateDependencies(EntryPoint entry, CUstream handle, const CUgraphNode* nodes, std::size_t count,
                            unsigned flags) {
  return EnterStream(entry, StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (nodes == nullptr && count != 0)) return CUDA_ERROR_INVALID_VALUE;
    if (stream.capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    std::vector<std::size_t> tail;
    if (flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES) tail = stream.capture_tail;
    if (!NumbersOf(call, *stream.capture->graph, nodes, count, &tail)) return CUDA_ERROR_INVALID_VALUE;
    stream.capture_tail = std::move(tail);
    return CUDA_SUCCESS;
  });
}

}  // namespace

SIMCUDA_EXPORT CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  return EnterStream(SIMCUDA_ENTRY(cuStreamBeginCapture), StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    return BeginCapture(call.machine, call.thread, stream, mode);
  });
}

SIMCUDA_EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph_handle, const CUgraphNode* nodes,
                                                    const CUgraphEdgeData*, std::size_t count,
                                                    CUstreamCaptureMode mode) {
  return EnterStream(SIMCUDA_ENTRY(cuStreamBeginCaptureToGraph), StreamOrDefault(handle),
                     [&](Call& call, Stream& stream) {
                       std::shared_ptr<Graph> graph = call.machine.graphs.Find(graph_handle);
                       if (graph == nullptr || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
                       std::vector<std::size_t> tail;
                       if (!NumbersOf(call, *graph, nodes, count, &tail)) return CUDA_ERROR_INVALID_VALUE;
                       return BeginCapture(call.machine, call.thread, stream, mode, std::move(graph), std::move(tail));
                     });
}

SIMCUDA_EXPORT CUresult cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode* nodes, const CUgraphEdgeData*,
                                                          std::size_t count, unsigned flags) {
  return UpdateDependencies(SIMCUDA_ENTRY(cuStreamUpdateCaptureDependencies), handle, nodes, count, flags);
}

SIMCUDA_EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  return EnterStream(SIMCUDA_ENTRY(cuStreamEndCapture), StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Graph> captured;
    const CUresult result = EndCapture(call.machine, call.thread, stream, &captured);
    *graph = captured == nullptr ? nullptr : captured->handle;
    return result;
  });
}

SIMCUDA_EXPORT CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return EnterStream(SIMCUDA_ENTRY(cuStreamIsCapturing), StreamOrDefault(handle), [&](Call&, Stream& stream) {
    if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (stream.kind == Stream::Kind::kLegacy) {
      if (const CUresult error = CheckLegacyUse(*stream.context)) return error;
    }
    *status = CaptureStatus(stream);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult __CUDA_API_PTSZ(cuStreamGetCaptureInfo_v2)(CUstream handle, CUstreamCaptureStatus* status,
                                                                   cuuint64_t* id, CUgraph* graph,
                                                                   const CUgraphNode** dependencies,
                                                                   std::size_t* count) {
  return EnterStream(SIMCUDA_ENTRY(__CUDA_API_PTSZ(cuStreamGetCaptureInfo_v2)), StreamOrDefault(handle),
                     [&](Call&, Stream& stream) {
                       if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
                       if (dependencies != nullptr) *dependencies = nullptr;
                       WriteCaptureInfo(stream, status, id, graph, dependencies, count);
                       return CUDA_SUCCESS;
                     });
}

SIMCUDA_EXPORT CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                               CUgraph* graph, const CUgraphNode** dependencies,
                                               const CUgraphEdgeData** edges, std::size_t* count) {
  return EnterStream(SIMCUDA_ENTRY(cuStreamGetCaptureInfo), StreamOrDefault(handle), [&](Call&, Stream& stream) {
    if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (dependencies != nullptr) *dependencies = nullptr;
    if (edges != nullptr) *edges = nullptr;
    WriteCaptureInfo(stream, status, id, graph, dependencies, count);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph_handle,
                                                     CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return Enter(SIMCUDA_ENTRY(cuGraphInstantiateWithParams), [&](Call& call) {
    const std::shared_ptr<Graph> graph = call.machine.graphs.Find(graph_handle);
    if (graph == nullptr || exec == nullptr || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<GraphExec> made = Instantiate(*graph, parameters->flags);
    parameters->result_out =
        made != nullptr ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    if (made == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *exec = call.machine.graph_execs.Add(std::move(made));
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuGraphLaunch(CUgraphExec exec_handle, CUstream handle) {
  return EnterStream(SIMCUDA_ENTRY(cuGraphLaunch), StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    const std::shared_ptr<GraphExec> exec = call.machine.graph_execs.Find(exec_handle);
    if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (const WorkPtr& work : exec->works) {
      if (const CUresult error = Submit(call, stream, work)) return error;
    }
    for (const auto& memory : exec->unfreed) call.machine.live_graph_memory[memory->address] = memory;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuGraphUpload(CUgraphExec exec_handle, CUstream handle) {
  return EnterStream(SIMCUDA_ENTRY(cuGraphUpload), StreamOrDefault(handle), [&](Call& call, Stream&) {
    return call.machine.graph_execs.Find(exec_handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

// The ABI before edges had data.
#undef cuStreamUpdateCaptureDependencies
SIMCUDA_EXPORT CUresult __CUDA_API_PTSZ(cuStreamUpdateCaptureDependencies)(CUstream handle, CUgraphNode* nodes,
                                                                           std::size_t count, unsigned flags) {
  return UpdateDependencies(SIMCUDA_ENTRY(__CUDA_API_PTSZ(cuStreamUpdateCaptureDependencies)), handle, nodes, count,
                            flags);
}

// The ABI of CUDA 10.0, without a mode.
#undef cuStreamBeginCapture
SIMCUDA_EXPORT CUresult __CUDA_API_PTSZ(cuStreamBeginCapture)(CUstream handle) {
  return EnterStream(SIMCUDA_ENTRY(__CUDA_API_PTSZ(cuStreamBeginCapture)), StreamOrDefault(handle),
                     [](Call& call, Stream& stream) {
                       return BeginCapture(call.machine, call.thread, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
                     });
}

}  // namespace stalloc::simcuda
