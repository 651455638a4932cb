// Functions of CUDA 12 whose names CUDA 13 gave to later versions of them, or dropped.
#include "abi.h"
#include "managed.h"

namespace stalloc::simcuda::cudart {

extern "C" cudaError_t AddNode(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t*, const cudaGraphEdgeData*, size_t,
                               cudaGraphNodeParams*) __asm__("cudaGraphAddNode_v2");

CUDART_AS("cudaEventElapsedTime_v2", ElapsedTime2, float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return cudaEventElapsedTime(milliseconds, start, end);
}

CUDART_AS("cudaThreadSynchronize", ThreadSynchronize) { return cudaDeviceSynchronize(); }
CUDART_AS("cudaThreadExit", ThreadExit) { return cudaDeviceReset(); }

// Graphs before edges had data.
CUDART_AS("cudaGraphGetEdges", GetEdges1, cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
          size_t* count) {
  return Finish(WithContext(
      [&](const DriverFunctions& driver) { return driver.real_cuGraphGetEdges(graph, from, to, nullptr, count); }));
}

CUDART_AS("cudaGraphNodeGetDependencies", GetDependencies1, cudaGraphNode_t node, cudaGraphNode_t* nodes,
          size_t* count) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuGraphNodeGetDependencies(node, nodes, nullptr, count);
  }));
}

CUDART_AS("cudaGraphNodeGetDependentNodes", GetDependents1, cudaGraphNode_t node, cudaGraphNode_t* nodes,
          size_t* count) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuGraphNodeGetDependentNodes(node, nodes, nullptr, count);
  }));
}

CUDART_AS("cudaGraphAddDependencies", AddDependencies1, cudaGraph_t graph, const cudaGraphNode_t* from,
          const cudaGraphNode_t* to, size_t count) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuGraphAddDependencies(graph, from, to, nullptr, count);
  }));
}

CUDART_AS("cudaGraphRemoveDependencies", RemoveDependencies1, cudaGraph_t graph, const cudaGraphNode_t* from,
          const cudaGraphNode_t* to, size_t count) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuGraphRemoveDependencies(graph, from, to, nullptr, count);
  }));
}

CUDART_AS("cudaGraphAddNode", AddNode1, cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
          size_t count, cudaGraphNodeParams* parameters) {
  return AddNode(node, graph, before, nullptr, count, parameters);
}

// Places were numbers of devices.
CUDART_AS("cudaMemPrefetchAsync", Prefetch1, const void* pointer, size_t size_bytes, int, cudaStream_t) {
  return HintAbout(pointer, size_bytes);
}

CUDART_AS("cudaMemAdvise", Advise1, const void* pointer, size_t size_bytes, cudaMemoryAdvise, int) {
  return HintAbout(pointer, size_bytes);
}

}  // namespace stalloc::simcuda::cudart
