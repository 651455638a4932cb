// Functions that take a stream. Compiled twice: with CUDA_API_PER_THREAD_DEFAULT_STREAM the header gives them their
// _ptsz and _ptds names, and they use the driver functions in which stream 0 is the per-thread one.
#include "runtime.h"

namespace stalloc::simcuda::cudart {

CUDART_EXPORT cudaError_t cudaMallocAsync(void** pointer, size_t size_bytes, cudaStream_t stream) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr address = 0;
    const CUresult result = driver.real_cuMemAllocAsync(&address, size_bytes, stream);
    *pointer = reinterpret_cast<void*>(address);
    return result;
  }));
}

CUDART_EXPORT cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t size_bytes, cudaMemPool_t pool,
                                                  cudaStream_t stream) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr address = 0;
    const CUresult result = driver.real_cuMemAllocFromPoolAsync(&address, size_bytes, pool, stream);
    *pointer = reinterpret_cast<void*>(address);
    return result;
  }));
}

CUDART_EXPORT cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return Finish(
      WithContext([&](const DriverFunctions& driver) { return driver.real_cuMemFreeAsync(Address(pointer), stream); }));
}

CUDART_EXPORT cudaError_t cudaMemcpy(void* destination, const void* source, size_t size_bytes, cudaMemcpyKind kind) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    switch (kind) {
      case cudaMemcpyHostToDevice:
        return driver.real_cuMemcpyHtoD(Address(destination), source, size_bytes);
      case cudaMemcpyDeviceToHost:
        return driver.real_cuMemcpyDtoH(destination, Address(source), size_bytes);
      case cudaMemcpyDeviceToDevice:
        return driver.real_cuMemcpyDtoD(Address(destination), Address(source), size_bytes);
      default:
        return driver.real_cuMemcpy(Address(destination), Address(source), size_bytes);
    }
  }));
}

CUDART_EXPORT cudaError_t cudaMemcpyAsync(void* destination, const void* source, size_t size_bytes, cudaMemcpyKind kind,
                                          cudaStream_t stream) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    switch (kind) {
      case cudaMemcpyHostToDevice:
        return driver.real_cuMemcpyHtoDAsync(Address(destination), source, size_bytes, stream);
      case cudaMemcpyDeviceToHost:
        return driver.real_cuMemcpyDtoHAsync(destination, Address(source), size_bytes, stream);
      case cudaMemcpyDeviceToDevice:
        return driver.real_cuMemcpyDtoDAsync(Address(destination), Address(source), size_bytes, stream);
      default:
        return driver.real_cuMemcpyAsync(Address(destination), Address(source), size_bytes, stream);
    }
  }));
}

CUDART_EXPORT cudaError_t cudaMemset(void* pointer, int value, size_t size_bytes) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuMemsetD8(Address(pointer), static_cast<unsigned char>(value), size_bytes);
  }));
}

CUDART_EXPORT cudaError_t cudaMemsetAsync(void* pointer, int value, size_t size_bytes, cudaStream_t stream) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuMemsetD8Async(Address(pointer), static_cast<unsigned char>(value), size_bytes, stream);
  }));
}

CUDART_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return Finish(WithContext([&](const DriverFunctions& driver) { return driver.real_cuStreamSynchronize(stream); }));
}

CUDART_EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return Finish(WithContext([&](const DriverFunctions& driver) { return driver.real_cuStreamQuery(stream); }));
}

CUDART_EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return Finish(
      WithContext([&](const DriverFunctions& driver) { return driver.real_cuStreamWaitEvent(stream, event, flags); }));
}

CUDART_EXPORT cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return Finish(WithContext([&](const DriverFunctions& driver) { return driver.real_cuStreamGetId(stream, id); }));
}

CUDART_EXPORT cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return Finish(
      WithContext([&](const DriverFunctions& driver) { return driver.real_cuStreamGetFlags(stream, flags); }));
}

CUDART_EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return Finish(
      WithContext([&](const DriverFunctions& driver) { return driver.real_cuStreamGetPriority(stream, priority); }));
}

CUDART_EXPORT cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return Finish(
      WithContext([&](const DriverFunctions& driver) { return driver.real_cuStreamGetDevice(stream, device); }));
}

CUDART_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return Finish(WithContext([&](const DriverFunctions& driver) { return driver.real_cuEventRecord(event, stream); }));
}

CUDART_EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return Finish(WithContext(
      [&](const DriverFunctions& driver) { return driver.real_cuEventRecordWithFlags(event, stream, flags); }));
}

CUDART_EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  return Finish(WithContext(
      [&](const DriverFunctions& driver) { return driver.real_cuLaunchHostFunc(stream, function, argument); }));
}

CUDART_EXPORT cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* argument,
                                                unsigned flags) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    // The two callbacks differ in the names of their types only.
    return driver.real_cuStreamAddCallback(stream, reinterpret_cast<CUstreamCallback>(function), argument, flags);
  }));
}

CUDART_EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode));
  }));
}

CUDART_EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return Finish(
      WithContext([&](const DriverFunctions& driver) { return driver.real_cuStreamEndCapture(stream, graph); }));
}

CUDART_EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuStreamIsCapturing(stream, reinterpret_cast<CUstreamCaptureStatus*>(status));
  }));
}

CUDART_RENAMED_STREAM("cudaStreamGetCaptureInfo", "cudaStreamGetCaptureInfo_v3", GetCaptureInfo, cudaStream_t stream,
                      cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
                      const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges, size_t* count) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    cuuint64_t capture = 0;
    const CUresult result =
        driver.real_cuStreamGetCaptureInfo(stream, reinterpret_cast<CUstreamCaptureStatus*>(status), &capture, graph,
                                           dependencies, reinterpret_cast<const CUgraphEdgeData**>(edges), count);
    if (result == CUDA_SUCCESS && id != nullptr) *id = capture;
    return result;
  }));
}

CUDART_EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return Finish(WithContext([&](const DriverFunctions& driver) { return driver.real_cuGraphLaunch(exec, stream); }));
}

CUDART_EXPORT cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  return Finish(WithContext([&](const DriverFunctions& driver) { return driver.real_cuGraphUpload(exec, stream); }));
}

static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS));

CUDART_EXPORT cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                         cudaGraphInstantiateParams* parameters) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuGraphInstantiateWithParams(exec, graph,
                                                    reinterpret_cast<CUDA_GRAPH_INSTANTIATE_PARAMS*>(parameters));
  }));
}

CUDART_EXPORT cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                                        const cudaGraphNode_t* nodes, const cudaGraphEdgeData* edges,
                                                        size_t count, cudaStreamCaptureMode mode) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuStreamBeginCaptureToGraph(stream, graph, nodes,
                                                   reinterpret_cast<const CUgraphEdgeData*>(edges), count,
                                                   static_cast<CUstreamCaptureMode>(mode));
  }));
}

CUDART_RENAMED_STREAM("cudaStreamUpdateCaptureDependencies", "cudaStreamUpdateCaptureDependencies_v2",
                      UpdateCaptureDependencies, cudaStream_t stream, cudaGraphNode_t* nodes,
                      const cudaGraphEdgeData* edges, size_t count, unsigned flags) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuStreamUpdateCaptureDependencies(stream, nodes, reinterpret_cast<const CUgraphEdgeData*>(edges),
                                                         count, flags);
  }));
}

}  // namespace stalloc::simcuda::cudart
