// Entry points that put work into a graph without a capture.
#include "call.h"
#include "work.h"

namespace stalloc::simcuda {
namespace {

// Adds a node behind those it follows. A node's handle is its number in its graph, from 1 on.
CUresult AddNode(Call& call, CUgraphNode* node, CUgraph graph_handle, const CUgraphNode* before, std::size_t count,
                 WorkPtr work) {
  const std::shared_ptr<Graph> graph = call.machine.graphs.Find(graph_handle);
  if (graph == nullptr || node == nullptr || (before == nullptr && count != 0)) return CUDA_ERROR_INVALID_VALUE;
  GraphNode added{std::move(work), {}};
  for (std::size_t i = 0; i < count; ++i) {
    const auto number = reinterpret_cast<std::uintptr_t>(before[i]);
    if (number == 0 || number > graph->nodes.size()) return CUDA_ERROR_INVALID_VALUE;
    added.after.push_back(number - 1);
  }
  graph->nodes.push_back(std::move(added));
  *node = reinterpret_cast<CUgraphNode>(graph->nodes.size());
  return CUDA_SUCCESS;
}

}  // namespace

// Of one row of device memory only: what cudaGraphAddMemcpyNode1D makes.
SIMCUDA_EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before,
                                             std::size_t count, const CUDA_MEMCPY3D* copy, CUcontext context) {
  return Enter(SIMCUDA_ENTRY(cuGraphAddMemcpyNode), [&](Call& call) {
    const std::shared_ptr<Context> acting = call.machine.contexts.Find(context);
    if (copy == nullptr || acting == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (copy->Height != 1 || copy->Depth != 1 || copy->srcMemoryType != CU_MEMORYTYPE_DEVICE ||
        copy->dstMemoryType != CU_MEMORYTYPE_DEVICE)
      return CUDA_ERROR_NOT_SUPPORTED;
    CopyEnd to{copy->dstDevice + copy->dstXInBytes, true, acting.get()};
    CopyEnd from{copy->srcDevice + copy->srcXInBytes, true, acting.get()};
    return AddNode(call, node, graph, before, count,
                   std::make_shared<Copy>(to, from, copy->WidthInBytes, std::vector<std::uint8_t>()));
  });
}

// Of one row.
SIMCUDA_EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before,
                                             std::size_t count, const CUDA_MEMSET_NODE_PARAMS* fill,
                                             CUcontext context) {
  return Enter(SIMCUDA_ENTRY(cuGraphAddMemsetNode), [&](Call& call) {
    if (fill == nullptr || call.machine.contexts.Find(context) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (fill->height != 1 || fill->elementSize != 4) return CUDA_ERROR_NOT_SUPPORTED;
    return AddNode(call, node, graph, before, count, std::make_shared<Fill>(fill->dst, fill->width * 4, fill->value));
  });
}

}  // namespace stalloc::simcuda
