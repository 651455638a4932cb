// Entry points that put work into a graph without a capture.
#include "call.h"
#include "work.h"

namespace stalloc::simcuda {
namespace {

// Adds a node behind those it follows.
CUresult AddNode(Call& call, CUgraphNode* node, CUgraph graph_handle, const CUgraphNode* before, std::size_t count,
                 GraphNode added) {
  const std::shared_ptr<Graph> graph = call.machine.graphs.Find(graph_handle);
  if (graph == nullptr || node == nullptr || (before == nullptr && count != 0)) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    std::shared_ptr<Graph> owner;
    std::size_t index = 0;
    if (!FindNode(call.machine, before[i], &owner, &index) || owner != graph) return CUDA_ERROR_INVALID_VALUE;
    added.after.push_back(index);
  }
  *node = graph->HandleOf(graph->Add(std::move(added)));
  return CUDA_SUCCESS;
}

GraphNode Working(WorkPtr work) {
  GraphNode node;
  node.work = std::move(work);
  return node;
}

GraphNode OfType(CUgraphNodeType type) {
  GraphNode node;
  node.type = type;
  return node;
}

// CUDA_KERNEL_NODE_PARAMS and its later version have the same members.
template <typename Parameters>
CUresult MakeLaunch(Call& call, const Parameters& kernel, GraphNode* node) {
  const CUfunction handle = kernel.func != nullptr ? kernel.func : reinterpret_cast<CUfunction>(kernel.kern);
  std::shared_ptr<Function> function = call.machine.functions.Find(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const LaunchShape shape{{kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ},
                          {kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ},
                          kernel.sharedMemBytes};
  if (const CUresult error = CheckShape(call.machine.card(), *function, shape)) return error;
  *node = Working(std::make_shared<Launch>(call.machine.card(), std::move(function), shape));
  return CUDA_SUCCESS;
}

// Of one row of device memory only: what cudaGraphAddMemcpyNode1D makes.
CUresult MakeCopy(Call& call, const CUDA_MEMCPY3D& copy, CUcontext context, GraphNode* node) {
  const std::shared_ptr<Context> acting = call.machine.contexts.Find(context);
  if (acting == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (copy.Height != 1 || copy.Depth != 1 || copy.srcMemoryType != CU_MEMORYTYPE_DEVICE ||
      copy.dstMemoryType != CU_MEMORYTYPE_DEVICE)
    return CUDA_ERROR_NOT_SUPPORTED;
  CopyEnd to{copy.dstDevice + copy.dstXInBytes, true, acting.get()};
  CopyEnd from{copy.srcDevice + copy.srcXInBytes, true, acting.get()};
  *node = Working(std::make_shared<Copy>(to, from, copy.WidthInBytes, std::vector<std::uint8_t>()));
  return CUDA_SUCCESS;
}

// Of one row. The two versions of the parameters have the same members.
template <typename Parameters>
CUresult MakeFill(Call& call, const Parameters& fill, CUcontext context, GraphNode* node) {
  if (call.machine.contexts.Find(context) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (fill.height != 1 || fill.elementSize != 4) return CUDA_ERROR_NOT_SUPPORTED;
  *node = Working(std::make_shared<Fill>(fill.dst, fill.width * 4, fill.value));
  return CUDA_SUCCESS;
}

template <typename Parameters>
CUresult MakeAllocation(Call& call, CUgraph handle, Parameters* allocation, GraphNode* node) {
  const std::shared_ptr<Graph> graph = call.machine.graphs.Find(handle);
  const int device = allocation->poolProps.location.id;
  if (graph == nullptr || allocation->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      call.machine.FindDevice(device) == nullptr || allocation->bytesize == 0)
    return CUDA_ERROR_INVALID_VALUE;
  *node = OfType(CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  node->memory_bytes = allocation->bytesize;
  const CUresult result = AllocateGraphMemory(call.machine, *graph, device, allocation->bytesize, &node->memory);
  allocation->dptr = node->memory;
  return result;
}

CUresult MakeRelease(Call& call, CUdeviceptr address, GraphNode* node) {
  const Block* block = call.machine.blocks.FindLive(address);
  if (block == nullptr || block->kind != Block::Kind::kGraph) return CUDA_ERROR_INVALID_VALUE;
  *node = OfType(CU_GRAPH_NODE_TYPE_MEM_FREE);
  node->memory = address;
  return CUDA_SUCCESS;
}

CUresult MakeEventNode(Call& call, CUevent handle, bool record, GraphNode* node) {
  std::shared_ptr<Event> event = call.machine.events.Find(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (record)
    *node = Working(std::make_shared<RecordEvent>(std::move(event)));
  else
    *node = Working(std::make_shared<WaitForRecord>(std::move(event)));
  return CUDA_SUCCESS;
}

CUresult MakeChild(Call& call, CUgraph handle, GraphNode* node) {
  const std::shared_ptr<Graph> child = call.machine.graphs.Find(handle);
  if (child == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *node = OfType(CU_GRAPH_NODE_TYPE_GRAPH);
  node->child = NewGraph(call.machine);  // as it is now
  node->child->nodes = child->nodes;
  for (GraphNode& inner : node->child->nodes) inner.handle = nullptr;
  node->child->memory = child->memory;
  return CUDA_SUCCESS;
}

// make(call, node) and the node added.
template <typename Make>
CUresult MakeAndAdd(EntryPoint entry, CUgraphNode* node, CUgraph graph, const CUgraphNode* before, std::size_t count,
                    Make&& make) {
  return Enter(entry, [&](Call& call) {
    GraphNode made;
    if (const CUresult error = make(call, &made)) return error;
    return AddNode(call, node, graph, before, count, std::move(made));
  });
}

CUresult AddGeneric(EntryPoint entry, CUgraphNode* node, CUgraph graph, const CUgraphNode* before, std::size_t count,
                    CUgraphNodeParams* parameters) {
  return MakeAndAdd(entry, node, graph, before, count, [&](Call& call, GraphNode* made) {
    if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUcontext current = call.context != nullptr ? call.context->handle : nullptr;
    switch (parameters->type) {
      case CU_GRAPH_NODE_TYPE_KERNEL:
        return MakeLaunch(call, parameters->kernel, made);
      case CU_GRAPH_NODE_TYPE_MEMCPY:
        return MakeCopy(call, parameters->memcpy.copyParams,
                        parameters->memcpy.copyCtx != nullptr ? parameters->memcpy.copyCtx : current, made);
      case CU_GRAPH_NODE_TYPE_MEMSET:
        return MakeFill(call, parameters->memset, parameters->memset.ctx != nullptr ? parameters->memset.ctx : current,
                        made);
      case CU_GRAPH_NODE_TYPE_HOST:
        *made = Working(std::make_shared<HostFunction>(parameters->host.fn, parameters->host.userData));
        return CUDA_SUCCESS;
      case CU_GRAPH_NODE_TYPE_GRAPH:
        return MakeChild(call, parameters->graph.graph, made);
      case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return MakeEventNode(call, parameters->eventWait.event, false, made);
      case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return MakeEventNode(call, parameters->eventRecord.event, true, made);
      case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return MakeAllocation(call, graph, &parameters->alloc, made);
      case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return MakeRelease(call, parameters->free.dptr, made);
      case CU_GRAPH_NODE_TYPE_EMPTY:
        return CUDA_SUCCESS;
      default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
  });
}

}  // namespace

SIMCUDA_EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before,
                                            std::size_t count) {
  return MakeAndAdd(SIMCUDA_ENTRY(cuGraphAddEmptyNode), node, graph, before, count,
                    [](Call&, GraphNode*) { return CUDA_SUCCESS; });
}

SIMCUDA_EXPORT CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before,
                                             std::size_t count, const CUDA_KERNEL_NODE_PARAMS* kernel) {
  return MakeAndAdd(SIMCUDA_ENTRY(cuGraphAddKernelNode), node, graph, before, count, [&](Call& call, GraphNode* made) {
    return kernel == nullptr ? CUDA_ERROR_INVALID_VALUE : MakeLaunch(call, *kernel, made);
  });
}

SIMCUDA_EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before,
                                             std::size_t count, const CUDA_MEMCPY3D* copy, CUcontext context) {
  return MakeAndAdd(SIMCUDA_ENTRY(cuGraphAddMemcpyNode), node, graph, before, count, [&](Call& call, GraphNode* made) {
    return copy == nullptr ? CUDA_ERROR_INVALID_VALUE : MakeCopy(call, *copy, context, made);
  });
}

SIMCUDA_EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before,
                                             std::size_t count, const CUDA_MEMSET_NODE_PARAMS* fill,
                                             CUcontext context) {
  return MakeAndAdd(SIMCUDA_ENTRY(cuGraphAddMemsetNode), node, graph, before, count, [&](Call& call, GraphNode* made) {
    return fill == nullptr ? CUDA_ERROR_INVALID_VALUE : MakeFill(call, *fill, context, made);
  });
}

SIMCUDA_EXPORT CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before,
                                           std::size_t count, const CUDA_HOST_NODE_PARAMS* host) {
  return MakeAndAdd(SIMCUDA_ENTRY(cuGraphAddHostNode), node, graph, before, count, [&](Call&, GraphNode* made) {
    if (host == nullptr || host->fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *made = Working(std::make_shared<HostFunction>(host->fn, host->userData));
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before,
                                                 std::size_t count, CUgraph child) {
  return MakeAndAdd(SIMCUDA_ENTRY(cuGraphAddChildGraphNode), node, graph, before, count,
                    [&](Call& call, GraphNode* made) { return MakeChild(call, child, made); });
}

SIMCUDA_EXPORT CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before,
                                                  std::size_t count, CUevent event) {
  return MakeAndAdd(SIMCUDA_ENTRY(cuGraphAddEventRecordNode), node, graph, before, count,
                    [&](Call& call, GraphNode* made) { return MakeEventNode(call, event, true, made); });
}

SIMCUDA_EXPORT CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before,
                                                std::size_t count, CUevent event) {
  return MakeAndAdd(SIMCUDA_ENTRY(cuGraphAddEventWaitNode), node, graph, before, count,
                    [&](Call& call, GraphNode* made) { return MakeEventNode(call, event, false, made); });
}

SIMCUDA_EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before,
                                               std::size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* allocation) {
  return MakeAndAdd(
      SIMCUDA_ENTRY(cuGraphAddMemAllocNode), node, graph, before, count, [&](Call& call, GraphNode* made) {
        return allocation == nullptr ? CUDA_ERROR_INVALID_VALUE : MakeAllocation(call, graph, allocation, made);
      });
}

SIMCUDA_EXPORT CUresult cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before,
                                              std::size_t count, CUdeviceptr address) {
  return MakeAndAdd(SIMCUDA_ENTRY(cuGraphAddMemFreeNode), node, graph, before, count,
                    [&](Call& call, GraphNode* made) { return MakeRelease(call, address, made); });
}

SIMCUDA_EXPORT CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before,
                                       const CUgraphEdgeData*, std::size_t count, CUgraphNodeParams* parameters) {
  return AddGeneric(SIMCUDA_ENTRY(cuGraphAddNode), node, graph, before, count, parameters);
}

#undef cuGraphAddNode
SIMCUDA_EXPORT CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, std::size_t count,
                                       CUgraphNodeParams* parameters) {
  return AddGeneric(EntryPoint::k_cuGraphAddNode, node, graph, before, count, parameters);
}

}  // namespace stalloc::simcuda
