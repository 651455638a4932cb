// Entry points of graphs: their life, what is in them, in which order.
#include <algorithm>
#include <cstdio>

#include "call.h"

namespace stalloc::simcuda {
namespace {

// body(graph) in an entry point that only needs one.
template <typename Body>
CUresult WithGraph(EntryPoint entry, CUgraph handle, Body&& body) {
  return Enter(entry, [&](Call& call) {
    const std::shared_ptr<Graph> graph = call.machine.graphs.Find(handle);
    return graph == nullptr ? CUDA_ERROR_INVALID_VALUE : body(call, *graph);
  });
}

// body(graph, node's index).
template <typename Body>
CUresult WithNode(EntryPoint entry, CUgraphNode handle, Body&& body) {
  return Enter(entry, [&](Call& call) {
    std::shared_ptr<Graph> graph;
    std::size_t index = 0;
    return FindNode(call.machine, handle, &graph, &index) ? body(call, *graph, index) : CUDA_ERROR_INVALID_VALUE;
  });
}

// As all lists of nodes are answered: without room for them their number, otherwise as many as there is room for.
CUresult WriteNodes(Graph& graph, const std::vector<std::size_t>& indices, CUgraphNode* nodes, CUgraphEdgeData* edges,
                    std::size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (nodes != nullptr) {
    for (std::size_t i = 0; i < *count; ++i) {
      nodes[i] = i < indices.size() ? graph.HandleOf(indices[i]) : nullptr;
      if (edges != nullptr) edges[i] = CUgraphEdgeData{};
    }
    *count = std::min(*count, indices.size());
  } else {
    *count = indices.size();
  }
  return CUDA_SUCCESS;
}

template <typename Wanted>
std::vector<std::size_t> NodesOf(const Graph& graph, Wanted wanted) {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!graph.nodes[i].destroyed && wanted(graph.nodes[i])) indices.push_back(i);
  }
  return indices;
}

CUresult GetDependencies(EntryPoint entry, CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* edges,
                         std::size_t* count) {
  return WithNode(entry, node, [&](Call&, Graph& graph, std::size_t index) {
    return WriteNodes(graph, graph.nodes[index].after, nodes, edges, count);
  });
}

CUresult GetDependents(EntryPoint entry, CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* edges,
                       std::size_t* count) {
  return WithNode(entry, node, [&](Call&, Graph& graph, std::size_t index) {
    const auto follows = [&](const GraphNode& other) {
      return std::find(other.after.begin(), other.after.end(), index) != other.after.end();
    };
    return WriteNodes(graph, NodesOf(graph, follows), nodes, edges, count);
  });
}

CUresult GetEdges(EntryPoint entry, CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                  std::size_t* count) {
  return WithGraph(entry, handle, [&](Call&, Graph& graph) {
    if (count == nullptr || (from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    std::size_t edges = 0;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const std::size_t before : graph.nodes[i].after) {
        if (from != nullptr && edges < *count) {
          from[edges] = graph.HandleOf(before);
          to[edges] = graph.HandleOf(i);
          if (data != nullptr) data[edges] = CUgraphEdgeData{};
        }
        ++edges;
      }
    }
    *count = from == nullptr ? edges : std::min(edges, *count);
    return CUDA_SUCCESS;
  });
}

CUresult ChangeEdges(EntryPoint entry, CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                     std::size_t count, bool add) {
  return WithGraph(entry, handle, [&](Call& call, Graph& graph) {
    if (count != 0 && (from == nullptr || to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i) {
      std::shared_ptr<Graph> first, second;
      std::size_t before = 0, after = 0;
      if (!FindNode(call.machine, from[i], &first, &before) || !FindNode(call.machine, to[i], &second, &after) ||
          first.get() != &graph || second.get() != &graph || before == after)
        return CUDA_ERROR_INVALID_VALUE;
      std::vector<std::size_t>& dependencies = graph.nodes[after].after;
      const auto found = std::find(dependencies.begin(), dependencies.end(), before);
      if ((found == dependencies.end()) != add) return CUDA_ERROR_INVALID_VALUE;
      if (add)
        dependencies.push_back(before);
      else
        dependencies.erase(found);
    }
    return CUDA_SUCCESS;
  });
}

CUresult Release(Call& call, CUuserObject handle, unsigned count) {
  const std::shared_ptr<UserObject> object = call.machine.user_objects.Find(handle);
  if (object == nullptr || count == 0 || count > object->references) return CUDA_ERROR_INVALID_VALUE;
  object->references -= count;
  if (object->references == 0) call.machine.user_objects.Remove(handle);
  return CUDA_SUCCESS;
}

}  // namespace

SIMCUDA_EXPORT CUresult cuGraphCreate(CUgraph* handle, unsigned flags) {
  return Enter(SIMCUDA_ENTRY(cuGraphCreate), [&](Call& call) {
    if (handle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *handle = NewGraph(call.machine)->handle;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuGraphDestroy(CUgraph handle) {
  return Enter(SIMCUDA_ENTRY(cuGraphDestroy), [&](Call& call) {
    return call.machine.graphs.Remove(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

SIMCUDA_EXPORT CUresult cuGraphClone(CUgraph* clone, CUgraph original) {
  return WithGraph(SIMCUDA_ENTRY(cuGraphClone), original, [&](Call& call, Graph& graph) {
    if (clone == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!graph.memory.empty()) return CUDA_ERROR_NOT_SUPPORTED;  // a graph with memory nodes has one owner
    const std::shared_ptr<Graph> made = NewGraph(call.machine);
    made->nodes = graph.nodes;
    for (GraphNode& node : made->nodes) node.handle = nullptr;
    made->objects = graph.objects;
    *clone = made->handle;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuGraphDestroyNode(CUgraphNode handle) {
  return WithNode(SIMCUDA_ENTRY(cuGraphDestroyNode), handle, [&](Call& call, Graph& graph, std::size_t index) {
    GraphNode& node = graph.nodes[index];
    if (node.memory != 0) return CUDA_ERROR_NOT_SUPPORTED;
    for (GraphNode& other : graph.nodes) std::erase(other.after, index);
    call.machine.graph_nodes.Remove(handle);
    node = GraphNode();
    node.destroyed = true;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, std::size_t* count) {
  return WithGraph(SIMCUDA_ENTRY(cuGraphGetNodes), handle, [&](Call&, Graph& graph) {
    return WriteNodes(graph, NodesOf(graph, [](const GraphNode&) { return true; }), nodes, nullptr, count);
  });
}

SIMCUDA_EXPORT CUresult cuGraphGetRootNodes(CUgraph handle, CUgraphNode* nodes, std::size_t* count) {
  return WithGraph(SIMCUDA_ENTRY(cuGraphGetRootNodes), handle, [&](Call&, Graph& graph) {
    const auto is_root = [](const GraphNode& node) { return node.after.empty(); };
    return WriteNodes(graph, NodesOf(graph, is_root), nodes, nullptr, count);
  });
}

SIMCUDA_EXPORT CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  return WithNode(SIMCUDA_ENTRY(cuGraphNodeGetType), handle, [&](Call&, Graph& graph, std::size_t index) {
    if (type == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *type = graph.nodes[index].type;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                                        std::size_t* count) {
  return GetEdges(SIMCUDA_ENTRY(cuGraphGetEdges), graph, from, to, data, count);
}

SIMCUDA_EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* edges,
                                                   std::size_t* count) {
  return GetDependencies(SIMCUDA_ENTRY(cuGraphNodeGetDependencies), node, nodes, edges, count);
}

SIMCUDA_EXPORT CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* edges,
                                                     std::size_t* count) {
  return GetDependents(SIMCUDA_ENTRY(cuGraphNodeGetDependentNodes), node, nodes, edges, count);
}

SIMCUDA_EXPORT CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                               const CUgraphEdgeData*, std::size_t count) {
  return ChangeEdges(SIMCUDA_ENTRY(cuGraphAddDependencies), graph, from, to, count, true);
}

SIMCUDA_EXPORT CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                                  const CUgraphEdgeData*, std::size_t count) {
  return ChangeEdges(SIMCUDA_ENTRY(cuGraphRemoveDependencies), graph, from, to, count, false);
}

SIMCUDA_EXPORT CUresult cuGraphDebugDotPrint(CUgraph handle, const char* path, unsigned) {
  return WithGraph(SIMCUDA_ENTRY(cuGraphDebugDotPrint), handle, [&](Call&, Graph& graph) {
    std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "w");
    if (file == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const std::string text = ToDot(graph);
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    return std::fclose(file) == 0 && written ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
  });
}

// Conditional nodes came with CUDA 12.3; what a condition would be, no kernel computes here.
SIMCUDA_EXPORT CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle*, CUgraph handle, CUcontext, unsigned,
                                                       unsigned) {
  return WithGraph(SIMCUDA_ENTRY(cuGraphConditionalHandleCreate), handle,
                   [](Call&, Graph&) { return CUDA_ERROR_NOT_SUPPORTED; });
}

SIMCUDA_EXPORT CUresult cuUserObjectCreate(CUuserObject* handle, void* data, CUhostFn destroy, unsigned references,
                                           unsigned flags) {
  return Enter(SIMCUDA_ENTRY(cuUserObjectCreate), [&](Call& call) {
    if (handle == nullptr || destroy == nullptr || references == 0 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
      return CUDA_ERROR_INVALID_VALUE;
    auto object = std::make_shared<UserObject>(destroy, data);
    object->references = references;
    *handle = call.machine.user_objects.Add(std::move(object));
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuUserObjectRetain(CUuserObject handle, unsigned count) {
  return Enter(SIMCUDA_ENTRY(cuUserObjectRetain), [&](Call& call) {
    const std::shared_ptr<UserObject> object = call.machine.user_objects.Find(handle);
    if (object == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    object->references += count;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuUserObjectRelease(CUuserObject handle, unsigned count) {
  return Enter(SIMCUDA_ENTRY(cuUserObjectRelease), [&](Call& call) { return Release(call, handle, count); });
}

SIMCUDA_EXPORT CUresult cuGraphRetainUserObject(CUgraph handle, CUuserObject object_handle, unsigned count,
                                                unsigned flags) {
  return WithGraph(SIMCUDA_ENTRY(cuGraphRetainUserObject), handle, [&](Call& call, Graph& graph) {
    const std::shared_ptr<UserObject> object = call.machine.user_objects.Find(object_handle);
    if (object == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    graph.objects.insert(graph.objects.end(), count, object);
    return (flags & CU_GRAPH_USER_OBJECT_MOVE) != 0 ? Release(call, object_handle, count) : CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuGraphReleaseUserObject(CUgraph handle, CUuserObject object_handle, unsigned count) {
  return WithGraph(SIMCUDA_ENTRY(cuGraphReleaseUserObject), handle, [&](Call& call, Graph& graph) {
    const std::shared_ptr<UserObject> object = call.machine.user_objects.Find(object_handle);
    for (; count > 0; --count) {
      const auto found = std::find(graph.objects.begin(), graph.objects.end(), object);
      if (object == nullptr || found == graph.objects.end()) return CUDA_ERROR_INVALID_VALUE;
      graph.objects.erase(found);
    }
    return CUDA_SUCCESS;
  });
}

// The ABI before edges had data.
#undef cuGraphGetEdges
#undef cuGraphNodeGetDependencies
#undef cuGraphNodeGetDependentNodes
#undef cuGraphAddDependencies
#undef cuGraphRemoveDependencies
SIMCUDA_EXPORT CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, std::size_t* count) {
  return GetEdges(EntryPoint::k_cuGraphGetEdges, graph, from, to, nullptr, count);
}

SIMCUDA_EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* nodes, std::size_t* count) {
  return GetDependencies(EntryPoint::k_cuGraphNodeGetDependencies, node, nodes, nullptr, count);
}

SIMCUDA_EXPORT CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* nodes, std::size_t* count) {
  return GetDependents(EntryPoint::k_cuGraphNodeGetDependentNodes, node, nodes, nullptr, count);
}

SIMCUDA_EXPORT CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                               std::size_t count) {
  return ChangeEdges(EntryPoint::k_cuGraphAddDependencies, graph, from, to, count, true);
}

SIMCUDA_EXPORT CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                                  std::size_t count) {
  return ChangeEdges(EntryPoint::k_cuGraphRemoveDependencies, graph, from, to, count, false);
}

}  // namespace stalloc::simcuda
