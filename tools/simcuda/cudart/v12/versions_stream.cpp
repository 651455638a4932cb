// The same, of functions that take a stream. Compiled twice: see stream_order.cpp.
#include "abi.h"

namespace stalloc::simcuda::cudart {
namespace {

cudaError_t CaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                        cudaGraph_t* graph, const cudaGraphNode_t** dependencies, size_t* count) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    cuuint64_t capture = 0;
    const CUresult result = driver.real_cuStreamGetCaptureInfo(stream, reinterpret_cast<CUstreamCaptureStatus*>(status),
                                                               &capture, graph, dependencies, nullptr, count);
    if (result == CUDA_SUCCESS && id != nullptr) *id = capture;
    return result;
  }));
}

}  // namespace

CUDART_AS(CUDART_PTSZ("cudaStreamGetCaptureInfo"), CaptureInfo1, cudaStream_t stream, cudaStreamCaptureStatus* status,
          unsigned long long* id) {
  return CaptureInfo(stream, status, id, nullptr, nullptr, nullptr);
}

CUDART_AS(CUDART_PTSZ("cudaStreamGetCaptureInfo_v2"), CaptureInfo2, cudaStream_t stream,
          cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
          const cudaGraphNode_t** dependencies, size_t* count) {
  return CaptureInfo(stream, status, id, graph, dependencies, count);
}

CUDART_AS(CUDART_PTSZ("cudaStreamUpdateCaptureDependencies"), UpdateCaptureDependencies1, cudaStream_t stream,
          cudaGraphNode_t* nodes, size_t count, unsigned flags) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuStreamUpdateCaptureDependencies(stream, nodes, nullptr, count, flags);
  }));
}

}  // namespace stalloc::simcuda::cudart
