// Graphs, except what takes a stream. Nodes, graphs and events are the driver's own.
#include "code.h"

namespace stalloc::simcuda::cudart {

CUDART_EXPORT cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  return Finish(WithContext([&](const DriverFunctions& driver) { return driver.real_cuGraphCreate(graph, flags); }));
}

CUDART_EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return Finish(WithContext([&](const DriverFunctions& driver) { return driver.real_cuGraphDestroy(graph); }));
}

CUDART_EXPORT cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
  return Finish(WithContext([&](const DriverFunctions& driver) { return driver.real_cuGraphClone(clone, graph); }));
}

CUDART_EXPORT cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  return Finish(WithContext([&](const DriverFunctions& driver) { return driver.real_cuGraphDestroyNode(node); }));
}

CUDART_EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return Finish(
      WithContext([&](const DriverFunctions& driver) { return driver.real_cuGraphGetNodes(graph, nodes, count); }));
}

CUDART_EXPORT cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return Finish(
      WithContext([&](const DriverFunctions& driver) { return driver.real_cuGraphGetRootNodes(graph, nodes, count); }));
}

// The runtime's types of nodes have the driver's numbers.
CUDART_EXPORT cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuGraphNodeGetType(node, reinterpret_cast<CUgraphNodeType*>(type));
  }));
}

static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData));

CUDART_RENAMED("cudaGraphGetEdges", "cudaGraphGetEdges_v2", GetEdges, cudaGraph_t graph, cudaGraphNode_t* from,
               cudaGraphNode_t* to, cudaGraphEdgeData* edges, size_t* count) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuGraphGetEdges(graph, from, to, reinterpret_cast<CUgraphEdgeData*>(edges), count);
  }));
}

CUDART_RENAMED("cudaGraphNodeGetDependencies", "cudaGraphNodeGetDependencies_v2", GetDependencies, cudaGraphNode_t node,
               cudaGraphNode_t* nodes, cudaGraphEdgeData* edges, size_t* count) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuGraphNodeGetDependencies(node, nodes, reinterpret_cast<CUgraphEdgeData*>(edges), count);
  }));
}

CUDART_RENAMED("cudaGraphNodeGetDependentNodes", "cudaGraphNodeGetDependentNodes_v2", GetDependents,
               cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* edges, size_t* count) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuGraphNodeGetDependentNodes(node, nodes, reinterpret_cast<CUgraphEdgeData*>(edges), count);
  }));
}

CUDART_RENAMED("cudaGraphAddDependencies", "cudaGraphAddDependencies_v2", AddDependencies, cudaGraph_t graph,
               const cudaGraphNode_t* from, const cudaGraphNode_t* to, const cudaGraphEdgeData* edges, size_t count) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuGraphAddDependencies(graph, from, to, reinterpret_cast<const CUgraphEdgeData*>(edges), count);
  }));
}

CUDART_RENAMED("cudaGraphRemoveDependencies", "cudaGraphRemoveDependencies_v2", RemoveDependencies, cudaGraph_t graph,
               const cudaGraphNode_t* from, const cudaGraphNode_t* to, const cudaGraphEdgeData* edges, size_t count) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuGraphRemoveDependencies(graph, from, to, reinterpret_cast<const CUgraphEdgeData*>(edges),
                                                 count);
  }));
}

CUDART_EXPORT cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                                size_t count) {
  return Finish(WithContext(
      [&](const DriverFunctions& driver) { return driver.real_cuGraphAddEmptyNode(node, graph, before, count); }));
}

CUDART_EXPORT cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                     const cudaGraphNode_t* before, size_t count, cudaGraph_t child) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuGraphAddChildGraphNode(node, graph, before, count, child);
  }));
}

CUDART_EXPORT cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                      const cudaGraphNode_t* before, size_t count, cudaEvent_t event) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuGraphAddEventRecordNode(node, graph, before, count, event);
  }));
}

CUDART_EXPORT cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                    const cudaGraphNode_t* before, size_t count, cudaEvent_t event) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuGraphAddEventWaitNode(node, graph, before, count, event);
  }));
}

static_assert(sizeof(cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS));

CUDART_EXPORT cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                               size_t count, const cudaHostNodeParams* host) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuGraphAddHostNode(node, graph, before, count,
                                          reinterpret_cast<const CUDA_HOST_NODE_PARAMS*>(host));
  }));
}

static_assert(sizeof(cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS));

CUDART_EXPORT cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                   const cudaGraphNode_t* before, size_t count,
                                                   cudaMemAllocNodeParams* allocation) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuGraphAddMemAllocNode(node, graph, before, count,
                                              reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS*>(allocation));
  }));
}

CUDART_EXPORT cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                  const cudaGraphNode_t* before, size_t count, void* pointer) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuGraphAddMemFreeNode(node, graph, before, count, Address(pointer));
  }));
}

CUDART_EXPORT cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                 const cudaGraphNode_t* before, size_t count,
                                                 const cudaKernelNodeParams* kernel) {
  if (kernel == nullptr) return Finish(cudaErrorInvalidValue);
  return WithKernel(kernel->func, [&](const DriverFunctions& driver, CUkernel found) {
    CUDA_KERNEL_NODE_PARAMS parameters{};
    parameters.kern = found;
    parameters.gridDimX = kernel->gridDim.x;
    parameters.gridDimY = kernel->gridDim.y;
    parameters.gridDimZ = kernel->gridDim.z;
    parameters.blockDimX = kernel->blockDim.x;
    parameters.blockDimY = kernel->blockDim.y;
    parameters.blockDimZ = kernel->blockDim.z;
    parameters.sharedMemBytes = kernel->sharedMemBytes;
    return driver.real_cuGraphAddKernelNode(node, graph, before, count, &parameters);
  });
}

CUDART_EXPORT cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                                   const cudaGraphNode_t* before, size_t count, void* destination,
                                                   const void* source, size_t size_bytes, cudaMemcpyKind) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    CUcontext context = nullptr;
    if (const CUresult error = driver.real_cuCtxGetCurrent(&context)) return error;
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = Address(source);
    copy.dstDevice = Address(destination);
    copy.WidthInBytes = size_bytes;
    copy.Height = copy.Depth = 1;
    return driver.real_cuGraphAddMemcpyNode(node, graph, before, count, &copy, context);
  }));
}

CUDART_EXPORT cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                 const cudaGraphNode_t* before, size_t count,
                                                 const cudaMemsetParams* fill) {
  if (fill == nullptr) return Finish(cudaErrorInvalidValue);
  return Finish(WithContext([&](const DriverFunctions& driver) {
    CUcontext context = nullptr;
    if (const CUresult error = driver.real_cuCtxGetCurrent(&context)) return error;
    CUDA_MEMSET_NODE_PARAMS parameters{Address(fill->dst), fill->pitch, fill->value,
                                       fill->elementSize,  fill->width, fill->height};
    return driver.real_cuGraphAddMemsetNode(node, graph, before, count, &parameters, context);
  }));
}

// Kernels' nodes name them otherwise than the driver's; all other kinds have the same members.
CUDART_RENAMED("cudaGraphAddNode", "cudaGraphAddNode_v2", AddNode, cudaGraphNode_t* node, cudaGraph_t graph,
               const cudaGraphNode_t* before, const cudaGraphEdgeData* edges, size_t count,
               cudaGraphNodeParams* parameters) {
  static_assert(sizeof(cudaGraphNodeParams) == sizeof(CUgraphNodeParams));
  if (parameters == nullptr) return Finish(cudaErrorInvalidValue);
  if (parameters->type == cudaGraphNodeTypeKernel) {
    const cudaKernelNodeParamsV2& kernel = parameters->kernel;
    const cudaKernelNodeParams plain{kernel.func,           kernel.gridDim,      kernel.blockDim,
                                     kernel.sharedMemBytes, kernel.kernelParams, kernel.extra};
    return cudaGraphAddKernelNode(node, graph, before, count, &plain);
  }
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuGraphAddNode(node, graph, before, reinterpret_cast<const CUgraphEdgeData*>(edges), count,
                                      reinterpret_cast<CUgraphNodeParams*>(parameters));
  }));
}

CUDART_EXPORT cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle, cudaGraph_t graph,
                                                           unsigned value, unsigned flags) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    CUcontext context = nullptr;
    if (const CUresult error = driver.real_cuCtxGetCurrent(&context)) return error;
    return driver.real_cuGraphConditionalHandleCreate(reinterpret_cast<CUgraphConditionalHandle*>(handle), graph,
                                                      context, value, flags);
  }));
}

CUDART_EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return Finish(
      WithContext([&](const DriverFunctions& driver) { return driver.real_cuGraphInstantiate(exec, graph, flags); }));
}

CUDART_EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                        unsigned long long flags) {
  return Finish(
      WithContext([&](const DriverFunctions& driver) { return driver.real_cuGraphInstantiate(exec, graph, flags); }));
}

CUDART_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return Finish(WithContext([&](const DriverFunctions& driver) { return driver.real_cuGraphExecDestroy(exec); }));
}

static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo));

CUDART_EXPORT cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                              cudaGraphExecUpdateResultInfo* result) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuGraphExecUpdate(exec, graph, reinterpret_cast<CUgraphExecUpdateResultInfo*>(result));
  }));
}

CUDART_EXPORT cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long* flags) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    cuuint64_t known = 0;
    const CUresult result = driver.real_cuGraphExecGetFlags(exec, &known);
    if (result == CUDA_SUCCESS && flags != nullptr) *flags = known;
    return result;
  }));
}

CUDART_EXPORT cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned flags) {
  return Finish(
      WithContext([&](const DriverFunctions& driver) { return driver.real_cuGraphDebugDotPrint(graph, path, flags); }));
}

CUDART_EXPORT cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* data, cudaHostFn_t destroy,
                                               unsigned references, unsigned flags) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuUserObjectCreate(object, data, destroy, references, flags);
  }));
}

CUDART_EXPORT cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count) {
  return Finish(
      WithContext([&](const DriverFunctions& driver) { return driver.real_cuUserObjectRetain(object, count); }));
}

CUDART_EXPORT cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
  return Finish(
      WithContext([&](const DriverFunctions& driver) { return driver.real_cuUserObjectRelease(object, count); }));
}

CUDART_EXPORT cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count,
                                                    unsigned flags) {
  return Finish(WithContext(
      [&](const DriverFunctions& driver) { return driver.real_cuGraphRetainUserObject(graph, object, count, flags); }));
}

CUDART_EXPORT cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count) {
  return Finish(WithContext(
      [&](const DriverFunctions& driver) { return driver.real_cuGraphReleaseUserObject(graph, object, count); }));
}

CUDART_EXPORT cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuDeviceGetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attribute), value);
  }));
}

CUDART_EXPORT cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuDeviceSetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attribute), value);
  }));
}

CUDART_EXPORT cudaError_t cudaDeviceGraphMemTrim(int device) {
  return Finish(WithContext([&](const DriverFunctions& driver) { return driver.real_cuDeviceGraphMemTrim(device); }));
}

}  // namespace stalloc::simcuda::cudart
