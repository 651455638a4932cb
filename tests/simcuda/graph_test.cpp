// Graphs: nodes made by capture and by hand, their order, launches, updates.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>
#include <vector>

#include "simulated_device.h"

namespace stalloc::simcuda {
namespace {

class Graphs : public SimulatedDevice {
 protected:
  Graphs() {
    CUmodule module = nullptr;
    EXPECT_EQ(cuModuleLoadData(&module, ".version 7.0"), CUDA_SUCCESS);
    EXPECT_EQ(cuModuleGetFunction(&kernel_, module, "kernel"), CUDA_SUCCESS);
    memory_ = Allocate(4096);
  }

  CUresult Launch(CUstream stream) const {
    return cuLaunchKernel(kernel_, 8, 1, 1, 128, 1, 1, 0, stream, nullptr, nullptr);
  }
  static std::vector<CUgraphNode> NodesOf(CUgraph graph) {
    std::size_t count = 0;
    EXPECT_EQ(cuGraphGetNodes(graph, nullptr, &count), CUDA_SUCCESS);
    std::vector<CUgraphNode> nodes(count);
    EXPECT_EQ(cuGraphGetNodes(graph, nodes.data(), &count), CUDA_SUCCESS);
    return nodes;
  }
  static CUgraphNodeType TypeOf(CUgraphNode node) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    EXPECT_EQ(cuGraphNodeGetType(node, &type), CUDA_SUCCESS);
    return type;
  }
  static std::vector<CUgraphNode> Before(CUgraphNode node) {
    std::size_t count = 0;
    EXPECT_EQ(cuGraphNodeGetDependencies(node, nullptr, nullptr, &count), CUDA_SUCCESS);
    std::vector<CUgraphNode> nodes(count);
    if (count != 0) {
      EXPECT_EQ(cuGraphNodeGetDependencies(node, nodes.data(), nullptr, &count), CUDA_SUCCESS);
    }
    return nodes;
  }
  static CUgraph Captured(const std::function<void(CUstream)>& work) {
    const CUstream stream = MakeStream();
    EXPECT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    work(stream);
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    return graph;
  }

  CUfunction kernel_ = nullptr;
  CUdeviceptr memory_ = 0;
};

TEST_F(Graphs, CapturedNodesHaveTypesAndAnOrder) {
  const CUgraph graph = Captured([&](CUstream stream) {
    EXPECT_EQ(Launch(stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD32Async(memory_, 7, 16, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoDAsync(memory_ + 1024, memory_, 64, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamWriteValue32(stream, memory_, 1, 0), CUDA_SUCCESS);
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAllocAsync(&address, 1 << 20, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFreeAsync(address, stream), CUDA_SUCCESS);
  });
  const std::vector<CUgraphNode> nodes = NodesOf(graph);
  const std::vector<CUgraphNodeType> types = {CU_GRAPH_NODE_TYPE_KERNEL,    CU_GRAPH_NODE_TYPE_MEMSET,
                                              CU_GRAPH_NODE_TYPE_MEMCPY,    CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                                              CU_GRAPH_NODE_TYPE_MEM_ALLOC, CU_GRAPH_NODE_TYPE_MEM_FREE};
  ASSERT_EQ(nodes.size(), types.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    EXPECT_EQ(TypeOf(nodes[i]), types[i]) << i;
    EXPECT_EQ(Before(nodes[i]), i == 0 ? std::vector<CUgraphNode>() : std::vector<CUgraphNode>{nodes[i - 1]}) << i;
  }
  std::size_t roots = 0, edges = 0;
  EXPECT_EQ(cuGraphGetRootNodes(graph, nullptr, &roots), CUDA_SUCCESS);
  EXPECT_EQ(roots, 1u);
  EXPECT_EQ(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges), CUDA_SUCCESS);
  EXPECT_EQ(edges, nodes.size() - 1);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  CUgraphNodeType type;
  EXPECT_EQ(cuGraphNodeGetType(nodes[0], &type), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Graphs, CaptureInfoNamesTheGraphAndItsLastNodes) {
  const CUstream stream = MakeStream();
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(Launch(stream), CUDA_SUCCESS);
  ASSERT_EQ(Launch(stream), CUDA_SUCCESS);
  CUstreamCaptureStatus status;
  cuuint64_t id = 0;
  CUgraph during = nullptr, graph = nullptr;
  const CUgraphNode* last = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(cuStreamGetCaptureInfo(stream, &status, &id, &during, &last, nullptr, &count), CUDA_SUCCESS);
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(*last, NodesOf(during)[1]);
  // The next node follows the first instead of the second.
  CUgraphNode first = NodesOf(during)[0];
  ASSERT_EQ(cuStreamUpdateCaptureDependencies(stream, &first, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES),
            CUDA_SUCCESS);
  ASSERT_EQ(Launch(stream), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  EXPECT_EQ(graph, during);
  EXPECT_EQ(Before(NodesOf(graph)[2]), std::vector<CUgraphNode>{first});
}

TEST_F(Graphs, ACaptureAppendsToAGraph) {
  CUgraph graph = nullptr, ended = nullptr;
  CUgraphNode empty = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddEmptyNode(&empty, graph, nullptr, 0), CUDA_SUCCESS);
  const CUstream stream = MakeStream();
  ASSERT_EQ(cuStreamBeginCaptureToGraph(stream, graph, &empty, nullptr, 1, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_SUCCESS);
  ASSERT_EQ(Launch(stream), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamEndCapture(stream, &ended), CUDA_SUCCESS);
  EXPECT_EQ(ended, graph);
  EXPECT_EQ(Before(NodesOf(graph)[1]), std::vector<CUgraphNode>{empty});
  // A capture that fails leaves the program's graph alone.
  ASSERT_EQ(cuStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuStreamEndCapture(stream, &ended), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(NodesOf(graph).size(), 2u);
}

TEST_F(Graphs, NodesExecuteInTheirOrder) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode second = nullptr, first = nullptr;
  CUDA_MEMSET_NODE_PARAMS fill{memory_, 0, 2, 4, 1, 1};
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddMemsetNode(&second, graph, nullptr, 0, &fill, context_), CUDA_SUCCESS);
  fill.value = 1;
  ASSERT_EQ(cuGraphAddMemsetNode(&first, graph, nullptr, 0, &fill, context_), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddDependencies(graph, &first, &second, nullptr, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, nullptr), CUDA_SUCCESS);
  unsigned value = 0;
  ASSERT_EQ(cuMemcpyDtoH(&value, memory_, sizeof(value)), CUDA_SUCCESS);
  EXPECT_EQ(value, 2u);
  // Round in a circle.
  ASSERT_EQ(cuGraphAddDependencies(graph, &second, &first, nullptr, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Graphs, AnUpdateChangesParametersOnly) {
  const auto filled = [&](CUstream stream) { EXPECT_EQ(cuMemsetD32Async(memory_, 5, 1, stream), CUDA_SUCCESS); };
  const auto filled_otherwise = [&](CUstream stream) {
    EXPECT_EQ(cuMemsetD32Async(memory_, 6, 1, stream), CUDA_SUCCESS);
  };
  const auto launched = [&](CUstream stream) { EXPECT_EQ(Launch(stream), CUDA_SUCCESS); };
  CUgraphExec exec = nullptr;
  CUgraphExecUpdateResultInfo info{};
  ASSERT_EQ(cuGraphInstantiate(&exec, Captured(filled), 0), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecUpdate(exec, Captured(filled_otherwise), &info), CUDA_SUCCESS);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, nullptr), CUDA_SUCCESS);
  unsigned value = 0;
  ASSERT_EQ(cuMemcpyDtoH(&value, memory_, sizeof(value)), CUDA_SUCCESS);
  EXPECT_EQ(value, 6u);
  EXPECT_EQ(cuGraphExecUpdate(exec, Captured(launched), &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
}

TEST_F(Graphs, ExternalEventsAreRecordedByEachLaunch) {
  const CUevent start = MakeEvent(CU_EVENT_DEFAULT), end = MakeEvent(CU_EVENT_DEFAULT);
  const CUstream stream = MakeStream();
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecordWithFlags(start, stream, CU_EVENT_RECORD_EXTERNAL), CUDA_SUCCESS);
  ASSERT_EQ(Launch(stream), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecordWithFlags(end, stream, CU_EVENT_RECORD_EXTERNAL), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  ASSERT_EQ(NodesOf(graph).size(), 3u);
  EXPECT_EQ(TypeOf(NodesOf(graph)[2]), CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuEventSynchronize(end), CUDA_SUCCESS);
  float milliseconds = 0;
  ASSERT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_SUCCESS);
  EXPECT_GT(milliseconds, 0);
}

TEST_F(Graphs, VirtualMemoryMayChangeDuringACapture) {
  const CUstream stream = MakeStream();
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  const CUdeviceptr address = Reserve(1);
  EXPECT_EQ(cuMemMap(address, kPage, 0, CreatePages(1), 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(address, kPage), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
}

TEST_F(Graphs, AUserObjectLivesAsLongAsTheGraphs) {
  static std::atomic<int> destroyed{0};
  destroyed = 0;
  CUuserObject object = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuUserObjectCreate(
                &object, nullptr, [](void*) { ++destroyed; }, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
            CUDA_SUCCESS);
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(destroyed, 0);
  ASSERT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  for (int i = 0; i < 1000 && destroyed == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(destroyed, 1);
}

TEST_F(Graphs, TheDotFileNamesKernels) {
  const CUgraph graph = Captured([&](CUstream stream) { EXPECT_EQ(Launch(stream), CUDA_SUCCESS); });
  const std::string path = ::testing::TempDir() + "simcuda_graph.dot";
  ASSERT_EQ(cuGraphDebugDotPrint(graph, path.c_str(), 0), CUDA_SUCCESS);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_NE(text.str().find("kernel\\n<<<8,1,1 128,1,1>>>"), std::string::npos) << text.str();
  std::remove(path.c_str());
  EXPECT_EQ(cuGraphDebugDotPrint(graph, "/no/such/folder/graph.dot", 0), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace stalloc::simcuda
