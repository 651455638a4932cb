// Entry points of stream capture and graph launch that take a stream. Compiled twice: see per_thread_default_stream.h.
#include "call.h"
#include "per_thread_default_stream.h"

namespace stalloc::simcuda {
namespace {

void WriteCaptureInfo(const Stream& stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                      std::size_t* dependencies) {
  *status = CaptureStatus(stream);
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return;
  if (id != nullptr) *id = stream.capture->id;
  if (graph != nullptr) *graph = nullptr;  // a graph gets its handle when the capture ends
  if (dependencies != nullptr) *dependencies = 0;
}

}  // namespace

SIMCUDA_EXPORT CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  return EnterStream(SIMCUDA_ENTRY(cuStreamBeginCapture), StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    return BeginCapture(call.machine, call.thread, stream, mode);
  });
}

// Appending to a graph is not simulated.
SIMCUDA_EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream handle, CUgraph, const CUgraphNode*,
                                                    const CUgraphEdgeData*, std::size_t, CUstreamCaptureMode) {
  return EnterStream(SIMCUDA_ENTRY(cuStreamBeginCaptureToGraph), StreamOrDefault(handle),
                     [](Call&, Stream&) { return CUDA_ERROR_NOT_SUPPORTED; });
}

SIMCUDA_EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  return EnterStream(SIMCUDA_ENTRY(cuStreamEndCapture), StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Graph> captured;
    const CUresult result = EndCapture(call.machine, call.thread, stream, &captured);
    *graph = captured == nullptr ? nullptr : call.machine.graphs.Add(captured);
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
                       WriteCaptureInfo(stream, status, id, graph, count);
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
    WriteCaptureInfo(stream, status, id, graph, count);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph_handle,
                                                     CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return Enter(SIMCUDA_ENTRY(cuGraphInstantiateWithParams), [&](Call& call) {
    const std::shared_ptr<Graph> graph = call.machine.graphs.Find(graph_handle);
    if (graph == nullptr || exec == nullptr || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *exec = call.machine.graph_execs.Add(Instantiate(*graph));
    parameters->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
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
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuGraphUpload(CUgraphExec exec_handle, CUstream handle) {
  return EnterStream(SIMCUDA_ENTRY(cuGraphUpload), StreamOrDefault(handle), [&](Call& call, Stream&) {
    return call.machine.graph_execs.Find(exec_handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
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
