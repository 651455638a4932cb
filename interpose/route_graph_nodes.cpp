// Copies and fills that a program puts into a graph itself, without a capture: the device of the node's context is
// given access to the served memory in them (at_owner.h), since a graph is launched later and as a whole. Any thread.
#include "at_owner.h"

namespace stalloc::interpose {
namespace {

// As if `context` acted.
template <typename... Addresses>
void OpenTo(CUcontext context, Addresses... addresses) noexcept {
  if (context != nullptr && STALLOC_CALL_DRIVER(cuCtxPushCurrent, context) != CUDA_SUCCESS) return;
  (OpenToActing(addresses, nullptr), ...);
  CUcontext popped = nullptr;
  if (context != nullptr) STALLOC_CALL_DRIVER(cuCtxPopCurrent, &popped);
}

// Without a context: the current one, as the driver takes it to be.
void Open(const CUDA_MEMCPY3D* copy, CUcontext context = nullptr) noexcept {
  if (!SeveralDevices() || copy == nullptr) return;
  const auto memory = [](CUmemorytype type, CUdeviceptr address) {
    return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED ? address : 0;
  };
  OpenTo(context, memory(copy->dstMemoryType, copy->dstDevice), memory(copy->srcMemoryType, copy->srcDevice));
}

void Open(const CUDA_MEMSET_NODE_PARAMS* fill, CUcontext context = nullptr) noexcept {
  if (SeveralDevices() && fill != nullptr) OpenTo(context, fill->dst);
}

void Open(const CUgraphNodeParams* node) noexcept {
  if (!SeveralDevices() || node == nullptr) return;
  if (node->type == CU_GRAPH_NODE_TYPE_MEMCPY) Open(&node->memcpy.copyParams, node->memcpy.copyCtx);
  if (node->type == CU_GRAPH_NODE_TYPE_MEMSET) OpenTo(node->memset.ctx, node->memset.dst);
}

}  // namespace
}  // namespace stalloc::interpose

using namespace stalloc::interpose;

CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, std::size_t count,
                              const CUDA_MEMCPY3D* copy, CUcontext context) {
  Open(copy, context);
  return Forward<Entry::k_cuGraphAddMemcpyNode>(node, graph, before, count, copy, context);
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* copy) {
  Open(copy);
  return Forward<Entry::k_cuGraphMemcpyNodeSetParams>(node, copy);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec graph, CUgraphNode node, const CUDA_MEMCPY3D* copy,
                                        CUcontext context) {
  Open(copy, context);
  return Forward<Entry::k_cuGraphExecMemcpyNodeSetParams>(graph, node, copy, context);
}

CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, std::size_t count,
                              const CUDA_MEMSET_NODE_PARAMS* fill, CUcontext context) {
  Open(fill, context);
  return Forward<Entry::k_cuGraphAddMemsetNode>(node, graph, before, count, fill, context);
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* fill) {
  Open(fill);
  return Forward<Entry::k_cuGraphMemsetNodeSetParams>(node, fill);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec graph, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* fill,
                                        CUcontext context) {
  Open(fill, context);
  return Forward<Entry::k_cuGraphExecMemsetNodeSetParams>(graph, node, fill, context);
}

CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, std::size_t count,
                        CUgraphNodeParams* parameters) {
  Open(parameters);
  return Forward<Entry::k_cuGraphAddNode>(node, graph, before, count, parameters);
}

CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, const CUgraphEdgeData* edges,
                           std::size_t count, CUgraphNodeParams* parameters) {
  Open(parameters);
  return Forward<Entry::k_cuGraphAddNode_v2>(node, graph, before, edges, count, parameters);
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* parameters) {
  Open(parameters);
  return Forward<Entry::k_cuGraphNodeSetParams>(node, parameters);
}

CUresult cuGraphExecNodeSetParams(CUgraphExec graph, CUgraphNode node, CUgraphNodeParams* parameters) {
  Open(parameters);
  return Forward<Entry::k_cuGraphExecNodeSetParams>(graph, node, parameters);
}
