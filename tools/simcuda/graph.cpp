#include "graph.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <thread>

#include "launch.h"
#include "machine.h"

namespace stalloc::simcuda {
namespace {

const char* NameOf(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return "KERNEL";
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return "MEMCPY";
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return "MEMSET";
    case CU_GRAPH_NODE_TYPE_HOST:
      return "HOST";
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return "GRAPH";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return "EVENT_WAIT";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return "EVENT_RECORD";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return "MEM_ALLOC";
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return "MEM_FREE";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return "BATCH_MEM_OP";
    default:
      return "EMPTY";
  }
}

void AppendWorks(const Graph& graph, const std::vector<std::size_t>& order, GraphExec* exec) {
  for (const std::size_t index : order) {
    const GraphNode& node = graph.nodes[index];
    exec->types.push_back(node.type);
    if (node.work != nullptr) exec->works.push_back(node.work);
    if (node.child == nullptr) continue;
    if (const auto inner = node.child->Order()) AppendWorks(*node.child, *inner, exec);
    exec->memory.insert(exec->memory.end(), node.child->memory.begin(), node.child->memory.end());
  }
}

}  // namespace

GraphMemory::GraphMemory(Machine* owner, int device_index, CUdeviceptr begin, std::uint64_t mapped)
    : machine(owner), device(device_index), address(begin), bytes(mapped) {
  GraphMemoryUse& use = machine->FindDevice(device)->graph_memory;
  use.bytes += bytes;
  use.high_bytes = std::max(use.high_bytes, use.bytes);
}

GraphMemory::~GraphMemory() {
  if (Device* owner = machine->FindDevice(device)) owner->graph_memory.bytes -= bytes;
  machine->blocks.Remove(address);
  machine->space.Unmap(address, bytes, Mapping::Kind::kPool);
  machine->space.Free(address, bytes);
}

UserObject::~UserObject() { std::thread(destroy, data).detach(); }

Graph::~Graph() {
  for (const GraphNode& node : nodes) {
    if (node.handle != nullptr) machine->graph_nodes.Remove(node.handle);
  }
}

std::size_t Graph::Add(GraphNode node) {
  if (node.work != nullptr) node.type = node.work->node_type();
  nodes.push_back(std::move(node));
  return nodes.size() - 1;
}

CUgraphNode Graph::HandleOf(std::size_t index) {
  GraphNode& node = nodes[index];
  if (node.handle == nullptr)
    node.handle = machine->graph_nodes.Add(std::make_shared<NodeReference>(NodeReference{weak_from_this(), index}));
  return node.handle;
}

std::size_t Graph::live_nodes() const {
  return static_cast<std::size_t>(
      std::count_if(nodes.begin(), nodes.end(), [](const GraphNode& node) { return !node.destroyed; }));
}

std::optional<std::vector<std::size_t>> Graph::Order() const {
  // The lowest number first, so that what was captured executes in the order in which it was captured.
  std::vector<std::size_t> order, waits(nodes.size(), 0);
  std::vector<std::vector<std::size_t>> followers(nodes.size());
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].destroyed) continue;
    waits[i] = nodes[i].after.size();
    for (const std::size_t before : nodes[i].after) followers[before].push_back(i);
    if (waits[i] == 0) ready.push(i);
  }
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const std::size_t follower : followers[order.back()]) {
      if (--waits[follower] == 0) ready.push(follower);
    }
  }
  if (order.size() != live_nodes()) return std::nullopt;
  return order;
}

std::shared_ptr<Graph> NewGraph(Machine& machine) {
  auto graph = std::make_shared<Graph>();
  graph->machine = &machine;
  graph->handle = machine.graphs.Add(graph);
  return graph;
}

bool FindNode(Machine& machine, CUgraphNode handle, std::shared_ptr<Graph>* graph, std::size_t* index) {
  const std::shared_ptr<NodeReference> reference = machine.graph_nodes.Find(handle);
  if (reference == nullptr) return false;
  *graph = reference->graph.lock();
  *index = reference->index;
  return *graph != nullptr;
}

CUresult AllocateGraphMemory(Machine& machine, Graph& graph, int device, std::uint64_t size_bytes,
                             CUdeviceptr* address) {
  PhysicalPtr physical = machine.FindDevice(device)->memory->Allocate(size_bytes);
  if (physical == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::uint64_t mapped_bytes = physical->size_bytes;
  const CUdeviceptr begin = machine.space.Reserve(mapped_bytes, kPageBytes, 0);
  if (begin == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  Mapping mapping{mapped_bytes, std::move(physical), Mapping::Kind::kPool};
  mapping.SetAccess(device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  machine.space.Map(begin, std::move(mapping));
  Block block;
  block.kind = Block::Kind::kGraph;
  block.size_bytes = size_bytes;
  block.device = device;
  machine.blocks.Add(begin, std::move(block));
  graph.memory.push_back(std::make_shared<GraphMemory>(&machine, device, begin, mapped_bytes));
  *address = begin;
  return CUDA_SUCCESS;
}

std::shared_ptr<GraphExec> Instantiate(const Graph& graph, cuuint64_t flags) {
  const auto order = graph.Order();
  if (!order) return nullptr;
  auto exec = std::make_shared<GraphExec>();
  exec->flags = flags;
  exec->memory = graph.memory;
  exec->objects = graph.objects;
  AppendWorks(graph, *order, exec.get());
  exec->unfreed = exec->memory;
  for (const GraphNode& node : graph.nodes) {
    if (node.type != CU_GRAPH_NODE_TYPE_MEM_FREE) continue;
    std::erase_if(exec->unfreed, [&](const auto& memory) { return memory->address == node.memory; });
  }
  return exec;
}

std::string ToDot(const Graph& graph) {
  std::string text = "digraph dot {\nsubgraph cluster_1 {\nlabel=\"graph_1\" graph[style=\"dashed\"];\n";
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    if (node.destroyed) continue;
    std::string label = NameOf(node.type);
    if (const auto* launch = dynamic_cast<const Launch*>(node.work.get())) {
      const LaunchShape& shape = launch->shape();
      label += "\\n" + launch->function().name + "\\n<<<" + std::to_string(shape.grid[0]) + "," +
               std::to_string(shape.grid[1]) + "," + std::to_string(shape.grid[2]) + " " +
               std::to_string(shape.block[0]) + "," + std::to_string(shape.block[1]) + "," +
               std::to_string(shape.block[2]) + ">>>";
    }
    text += "\"graph_1_node_" + std::to_string(i) + "\"[style=\"solid\" shape=\"rectangle\" label=\"" +
            std::to_string(i) + "\\n" + label + "\"];\n";
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const std::size_t before : graph.nodes[i].after)
      text += "\"graph_1_node_" + std::to_string(before) + "\" -> \"graph_1_node_" + std::to_string(i) + "\";\n";
  }
  return text + "}\n}\n";
}

}  // namespace stalloc::simcuda
