// The program's own order between streams, and captures in progress.
//
// Any thread. What the driver refused did not happen: captures are told after it has accepted them, events and waits
// before and after.
#include <cstdint>

#include "capturing.h"
#include "driver_call.h"
#include "framework_settings.h"
#include "process_life.h"
#include "real_symbols.h"
#include "runtime/service/program_needs.h"
#include "runtime/service/service.h"
#include "stream_order.h"

namespace stalloc::interpose {
namespace {

template <typename RealCall>
CUresult Record(CUevent event, CUstream stream, RealCall record) noexcept {
  if (!ServingAlready()) return record();
  const std::uint64_t number = runtime::NoteEventRecords(event, stream);
  const CUresult result = record();
  runtime::NoteEventRecorded(event, stream, number, result == CUDA_SUCCESS);
  return result;
}

template <typename RealCall>
CUresult Wait(CUstream stream, CUevent event, RealCall wait) noexcept {
  if (!ServingAlready()) return wait();
  const std::uint64_t record = runtime::RecordOf(event, stream);
  const CUresult result = wait();
  if (result == CUDA_SUCCESS) runtime::NoteStreamWaits(stream, event, record);
  return result;
}

// The allocator is started before a capture begins: it counts captures from its start on, and must know of this one
// when the first request comes in the middle of it.
template <typename Begin>
CUresult BeginCapture(CUstream stream, Begin begin) noexcept {
  const bool serving = Serving();
  const CUresult result = begin();
  if (serving && result == CUDA_SUCCESS) runtime::NoteCaptureBegan(stream);
  return result;
}

// torch.compile's CUDA graph trees begin by capturing nothing at all, to have a pool (cudagraph_trees.py), and then ask
// the allocator for what the cudaMallocAsync backend refuses.
void LookForGraphPools(CUgraph graph) noexcept {
  std::size_t nodes = 0;
  if (PyTorchBackendWasChosen() && STALLOC_CALL_DRIVER(cuGraphGetNodes, graph, nullptr, &nodes) == CUDA_SUCCESS &&
      nodes == 0) {
    runtime::NoteNeed(runtime::Need::kGraphPools);
  }
}

// An end that fails may have ended the capture (it was invalidated, a fork was not joined) or not (the wrong thread,
// the wrong stream): the stream itself says.
template <typename End>
CUresult EndCapture(CUstream stream, CUgraph* graph, End end) noexcept {
  const bool was_capturing = ServingAlready() && Capturing(stream);
  const CUresult result = end();
  if (was_capturing && result == CUDA_SUCCESS) LookForGraphPools(*graph);
  // PyTorch's cudaMallocAsync backend leaves work unjoined in the capture of a backward pass; its own does not.
  if (was_capturing && result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED && PyTorchBackendWasChosen())
    runtime::NoteNeed(runtime::Need::kGraphPools);
  if (was_capturing && !Capturing(stream)) runtime::NoteCaptureEnded(stream);
  return result;
}

}  // namespace
}  // namespace stalloc::interpose

using namespace stalloc::interpose;

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return Record(event, stream, [&] { return Forward<Entry::k_cuEventRecord>(event, stream); });
}

CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) {
  return Record(event, Order(stream, Streams::kPerThread),
                [&] { return Forward<Entry::k_cuEventRecord_ptsz>(event, stream); });
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  return Record(event, stream, [&] { return Forward<Entry::k_cuEventRecordWithFlags>(event, stream, flags); });
}

CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned int flags) {
  return Record(event, Order(stream, Streams::kPerThread),
                [&] { return Forward<Entry::k_cuEventRecordWithFlags_ptsz>(event, stream, flags); });
}

// Before the driver: the handle may come back for another event at once.
CUresult cuEventDestroy(CUevent event) {
  if (ServingAlready()) stalloc::runtime::NoteEventDestroyed(event);
  return Forward<Entry::k_cuEventDestroy>(event);
}

CUresult cuEventDestroy_v2(CUevent event) {
  if (ServingAlready()) stalloc::runtime::NoteEventDestroyed(event);
  return Forward<Entry::k_cuEventDestroy_v2>(event);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  return Wait(stream, event, [&] { return Forward<Entry::k_cuStreamWaitEvent>(stream, event, flags); });
}

CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags) {
  return Wait(Order(stream, Streams::kPerThread), event,
              [&] { return Forward<Entry::k_cuStreamWaitEvent_ptsz>(stream, event, flags); });
}

CUresult cuStreamBeginCapture(CUstream stream) {
  return BeginCapture(stream, [&] { return Forward<Entry::k_cuStreamBeginCapture>(stream); });
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream) {
  return BeginCapture(Order(stream, Streams::kPerThread),
                      [&] { return Forward<Entry::k_cuStreamBeginCapture_ptsz>(stream); });
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return BeginCapture(stream, [&] { return Forward<Entry::k_cuStreamBeginCapture_v2>(stream, mode); });
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
  return BeginCapture(Order(stream, Streams::kPerThread),
                      [&] { return Forward<Entry::k_cuStreamBeginCapture_v2_ptsz>(stream, mode); });
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* nodes,
                                     const CUgraphEdgeData* edges, std::size_t count, CUstreamCaptureMode mode) {
  return BeginCapture(
      stream, [&] { return Forward<Entry::k_cuStreamBeginCaptureToGraph>(stream, graph, nodes, edges, count, mode); });
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode* nodes,
                                          const CUgraphEdgeData* edges, std::size_t count, CUstreamCaptureMode mode) {
  return BeginCapture(Order(stream, Streams::kPerThread), [&] {
    return Forward<Entry::k_cuStreamBeginCaptureToGraph_ptsz>(stream, graph, nodes, edges, count, mode);
  });
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  return EndCapture(stream, graph, [&] { return Forward<Entry::k_cuStreamEndCapture>(stream, graph); });
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) {
  return EndCapture(Order(stream, Streams::kPerThread), graph,
                    [&] { return Forward<Entry::k_cuStreamEndCapture_ptsz>(stream, graph); });
}
