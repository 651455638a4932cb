// Entry points of executable graphs, except those that take a stream.
#include "call.h"

namespace stalloc::simcuda {
namespace {

CUresult InstantiateGraph(EntryPoint entry, CUgraphExec* handle, CUgraph graph_handle, cuuint64_t flags) {
  return Enter(entry, [&](Call& call) {
    const std::shared_ptr<Graph> graph = call.machine.graphs.Find(graph_handle);
    if (graph == nullptr || handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<GraphExec> exec = Instantiate(*graph, flags);
    if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *handle = call.machine.graph_execs.Add(std::move(exec));
    return CUDA_SUCCESS;
  });
}

// What changes nodes' parameters; the nodes themselves and their kinds have to stay.
CUresult Update(EntryPoint entry, CUgraphExec handle, CUgraph graph_handle, CUgraphExecUpdateResult* result) {
  return Enter(entry, [&](Call& call) {
    const std::shared_ptr<Graph> graph = call.machine.graphs.Find(graph_handle);
    const std::shared_ptr<GraphExec> exec = call.machine.graph_execs.Find(handle);
    if (graph == nullptr || exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const std::shared_ptr<GraphExec> fresh = Instantiate(*graph, exec->flags);
    *result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    if (fresh == nullptr || fresh->types.size() != exec->types.size())
      *result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    else if (fresh->types != exec->types)
      *result = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    else if (!fresh->memory.empty() || !exec->memory.empty())
      *result = CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    if (*result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    exec->works = fresh->works;
    exec->objects = fresh->objects;
    return CUDA_SUCCESS;
  });
}

}  // namespace

SIMCUDA_EXPORT CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return InstantiateGraph(SIMCUDA_ENTRY(cuGraphInstantiate), exec, graph, flags);
}

SIMCUDA_EXPORT CUresult cuGraphExecDestroy(CUgraphExec handle) {
  return Enter(SIMCUDA_ENTRY(cuGraphExecDestroy), [&](Call& call) {
    return call.machine.graph_execs.Remove(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

SIMCUDA_EXPORT CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* flags) {
  return Enter(SIMCUDA_ENTRY(cuGraphExecGetFlags), [&](Call& call) {
    const std::shared_ptr<GraphExec> exec = call.machine.graph_execs.Find(handle);
    if (exec == nullptr || flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = exec->flags;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  if (info == nullptr) return CUDA_ERROR_INVALID_VALUE;
  info->errorNode = info->errorFromNode = nullptr;
  return Update(SIMCUDA_ENTRY(cuGraphExecUpdate), exec, graph, &info->result);
}

// The ABIs of CUDA 10 and 11.
#undef cuGraphInstantiate
#undef cuGraphExecUpdate
SIMCUDA_EXPORT CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode*, char*, std::size_t) {
  return InstantiateGraph(EntryPoint::k_cuGraphInstantiate, exec, graph, 0);
}

SIMCUDA_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode*, char*, std::size_t) {
  return InstantiateGraph(EntryPoint::k_cuGraphInstantiate_v2, exec, graph, 0);
}

SIMCUDA_EXPORT CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* node,
                                          CUgraphExecUpdateResult* result) {
  if (result == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (node != nullptr) *node = nullptr;
  return Update(EntryPoint::k_cuGraphExecUpdate, exec, graph, result);
}

}  // namespace stalloc::simcuda
