// Graphs: nodes with work and an order, made by capture or by hand, and their executable form.
//
// A node has a handle from when it is first asked for. Called under the machine's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "address_space.h"
#include "cuda_driver.h"
#include "stream.h"

namespace stalloc::simcuda {

struct Graph;
struct Machine;

struct GraphNode {
  WorkPtr work;  // null: an order only, and what `type` says
  std::vector<std::size_t> after;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CUgraphNode handle = nullptr;
  std::shared_ptr<Graph> child;  // CU_GRAPH_NODE_TYPE_GRAPH
  CUdeviceptr memory = 0;        // CU_GRAPH_NODE_TYPE_MEM_ALLOC and MEM_FREE
  std::uint64_t memory_bytes = 0;
  bool destroyed = false;
};

// What a node's handle stands for.
struct NodeReference {
  std::weak_ptr<Graph> graph;
  std::size_t index = 0;
};

// Memory that a graph allocates has one address for all launches. It lives as long as the graph or an executable one,
// and, where a launch has allocated it and no node frees it, until the program does.
struct GraphMemory {
  GraphMemory(Machine* owner, int device_index, CUdeviceptr begin, std::uint64_t mapped);
  ~GraphMemory();
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  Machine* const machine;
  const int device;
  const CUdeviceptr address;
  const std::uint64_t bytes;
};

// Its destructor is called when no program and no graph refers to it any more, on a thread of its own: the machine's
// lock may be held here, and the function may wait for locks of the program's.
struct UserObject {
  UserObject(CUhostFn function, void* argument) : destroy(function), data(argument) {}
  ~UserObject();
  UserObject(const UserObject&) = delete;
  UserObject& operator=(const UserObject&) = delete;

  const CUhostFn destroy;
  void* const data;
  unsigned references = 0;  // of the program's
};

struct Graph : std::enable_shared_from_this<Graph> {
  ~Graph();

  Machine* machine = nullptr;
  CUgraph handle = nullptr;
  std::vector<GraphNode> nodes;
  std::vector<std::shared_ptr<GraphMemory>> memory;
  std::vector<std::shared_ptr<UserObject>> objects;  // one entry a reference

  std::size_t Add(GraphNode node);
  CUgraphNode HandleOf(std::size_t index);
  std::size_t live_nodes() const;
  // Nodes in an order that the dependencies allow; nothing if they go round in a circle.
  std::optional<std::vector<std::size_t>> Order() const;
};

struct GraphExec {
  std::vector<WorkPtr> works;  // in an order that the nodes allow
  std::vector<std::shared_ptr<GraphMemory>> memory;
  std::vector<std::shared_ptr<GraphMemory>> unfreed;  // of them, what no node frees
  std::vector<std::shared_ptr<UserObject>> objects;
  std::vector<CUgraphNodeType> types;  // of all nodes, for an update: it must not change what there is
  cuuint64_t flags = 0;
};

std::shared_ptr<Graph> NewGraph(Machine& machine);
// The node of a handle; false if there is none such.
bool FindNode(Machine& machine, CUgraphNode handle, std::shared_ptr<Graph>* graph, std::size_t* index);

// Maps memory for a node. CUDA_ERROR_OUT_OF_MEMORY when the device has not that much left.
CUresult AllocateGraphMemory(Machine& machine, Graph& graph, int device, std::uint64_t size_bytes,
                             CUdeviceptr* address);

// Null if the graph goes round in a circle.
std::shared_ptr<GraphExec> Instantiate(const Graph& graph, cuuint64_t flags);
// The text of cuGraphDebugDotPrint.
std::string ToDot(const Graph& graph);

}  // namespace stalloc::simcuda
