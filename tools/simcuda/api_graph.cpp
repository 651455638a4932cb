// Entry points of graphs, except launch.
#include "call.h"

namespace stalloc::simcuda {

SIMCUDA_EXPORT CUresult cuGraphCreate(CUgraph* handle, unsigned flags) {
  return Enter(SIMCUDA_ENTRY(cuGraphCreate), [&](Call& call) {
    if (handle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *handle = call.machine.graphs.Add(std::make_shared<Graph>());
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuGraphDestroy(CUgraph handle) {
  return Enter(SIMCUDA_ENTRY(cuGraphDestroy), [&](Call& call) {
    return call.machine.graphs.Remove(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

// Nodes have no handles of their own here: only their number is answered.
SIMCUDA_EXPORT CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, std::size_t* count) {
  return Enter(SIMCUDA_ENTRY(cuGraphGetNodes), [&](Call& call) {
    const std::shared_ptr<Graph> graph = call.machine.graphs.Find(handle);
    if (graph == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (nodes != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    *count = graph->nodes.size();
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuGraphInstantiate(CUgraphExec* handle, CUgraph graph_handle, unsigned long long) {
  return Enter(SIMCUDA_ENTRY(cuGraphInstantiate), [&](Call& call) {
    const std::shared_ptr<Graph> graph = call.machine.graphs.Find(graph_handle);
    if (graph == nullptr || handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *handle = call.machine.graph_execs.Add(Instantiate(*graph));
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuGraphExecDestroy(CUgraphExec handle) {
  return Enter(SIMCUDA_ENTRY(cuGraphExecDestroy), [&](Call& call) {
    return call.machine.graph_execs.Remove(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

}  // namespace stalloc::simcuda
