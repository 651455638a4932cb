// Capture: who may call what, how a capture becomes invalid, what a graph does when it is launched.
#include <thread>

#include "simulated_device.h"

namespace stalloc::simcuda {
namespace {

class Captures : public LazyDevice {
 protected:
  CUgraph End(CUstream stream, CUresult expected = CUDA_SUCCESS) {
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), expected);
    return graph;
  }
  static CUstreamCaptureStatus Status(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    EXPECT_EQ(cuStreamIsCapturing(stream, &status), CUDA_SUCCESS);
    return status;
  }
  static CUresult AllocateInAnotherThread(CUcontext context, CUstreamCaptureMode mode) {
    CUresult result = CUDA_SUCCESS;
    std::thread([&] {
      cuCtxSetCurrent(context);
      cuThreadExchangeStreamCaptureMode(&mode);
      CUdeviceptr address = 0;
      result = cuMemAlloc(&address, 64);
    }).join();
    return result;
  }
};

TEST_F(Captures, AnUnsafeCallInGlobalModeIs900AndTheEndIs901) {
  const CUstream stream = MakeStream();
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(Status(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc(&address, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(Status(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  EXPECT_EQ(simcudaWriteTag(stream, 0, 0, 1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  End(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(Status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(cuMemAlloc(&address, 64), CUDA_SUCCESS);
}

TEST_F(Captures, ModesSayWhoIsForbidden) {
  struct Case {
    CUstreamCaptureMode capture, own_thread, other_thread;
    bool own_forbidden, other_forbidden;
  };
  constexpr auto kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL;
  constexpr auto kThreadLocal = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  constexpr auto kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
  const Case cases[] = {
      {kGlobal, kGlobal, kGlobal, true, true},         {kGlobal, kThreadLocal, kThreadLocal, true, false},
      {kGlobal, kRelaxed, kRelaxed, false, false},     {kThreadLocal, kGlobal, kGlobal, true, false},
      {kThreadLocal, kRelaxed, kGlobal, false, false}, {kRelaxed, kGlobal, kGlobal, false, false},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(testing::Message() << test.capture << test.own_thread << test.other_thread);
    const CUstream stream = MakeStream();
    ASSERT_EQ(cuStreamBeginCapture(stream, test.capture), CUDA_SUCCESS);
    EXPECT_EQ(AllocateInAnotherThread(context_, test.other_thread),
              test.other_forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS);
    CUstreamCaptureMode mode = test.own_thread;
    ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAlloc(&address, 64), test.own_forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS);
    ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    EXPECT_EQ(mode, test.own_thread);
    CUgraph graph = nullptr;
    cuStreamEndCapture(stream, &graph);
  }
}

TEST_F(Captures, WaitingForACapturingStreamIsAnError) {
  const CUstream stream = MakeStream();
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  End(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(Captures, TheLegacyStreamMayNotDependOnACapture) {
  const CUdeviceptr block = Allocate(kPage);
  EXPECT_EQ(cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  const CUstream blocking = MakeStream(CU_STREAM_DEFAULT);
  ASSERT_EQ(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  EXPECT_EQ(simcudaWriteTag(nullptr, block, 64, 1), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  End(blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  const CUstream apart = MakeStream(CU_STREAM_NON_BLOCKING);
  ASSERT_EQ(cuStreamBeginCapture(apart, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  EXPECT_EQ(simcudaWriteTag(nullptr, block, 64, 1), CUDA_SUCCESS);
  End(apart);
}

TEST_F(Captures, EndsOnItsOwnStreamAndThreadOnly) {
  const CUstream stream = MakeStream(), side = MakeStream();
  const CUevent event = MakeEvent();
  EXPECT_EQ(End(stream, CUDA_ERROR_ILLEGAL_STATE), nullptr);
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_ILLEGAL_STATE);
  std::thread([&] {
    cuCtxSetCurrent(context_);
    End(stream, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  }).join();
  ASSERT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(side, event, 0), CUDA_SUCCESS);
  EXPECT_EQ(Status(side), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  End(side, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  ASSERT_EQ(cuLaunchHostFunc(
                side, [](void*) {}, nullptr),
            CUDA_SUCCESS);
  End(stream, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
}

TEST_F(Captures, AGraphRunsItsWorkAtEachLaunch) {
  //  main  write 1 ─┬────────── read 2 ─
  //  side           └─ write 2 ─┘
  const CUdeviceptr block = Allocate(kPage);
  const CUstream main = MakeStream(), side = MakeStream();
  const CUevent fork = MakeEvent(), join = MakeEvent();
  ASSERT_EQ(cuStreamBeginCapture(main, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(simcudaWriteTag(main, block, 64, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(fork, main), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(side, fork, 0), CUDA_SUCCESS);
  ASSERT_EQ(simcudaWriteTag(side, block, 64, 2), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(join, side), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(main, join, 0), CUDA_SUCCESS);
  ASSERT_EQ(simcudaReadTag(main, block, 64, 2), CUDA_SUCCESS);
  CUgraph graph = End(main);
  EXPECT_EQ(Status(side), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(cuEventQuery(fork), CUDA_ERROR_CAPTURED_EVENT);
  EXPECT_EQ(simcudaPendingOperations(), 0u) << "captured work does not execute";
  std::size_t nodes = 0;
  ASSERT_EQ(cuGraphGetNodes(graph, nullptr, &nodes), CUDA_SUCCESS);
  EXPECT_EQ(nodes, 3u);
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  for (int launch = 0; launch < 2; ++launch) ASSERT_EQ(cuGraphLaunch(exec, main), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(main), CUDA_SUCCESS);
  EXPECT_EQ(simcudaCorruptions(), 0u) << FirstCorruption();
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
}

TEST_F(Captures, AllocationsInACaptureAreTheGraphs) {
  const CUstream stream = MakeStream();
  CUdeviceptr outside = 0, inside = 0;
  ASSERT_EQ(cuMemAllocAsync(&outside, kPage, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocAsync(&inside, kPage, stream), CUDA_SUCCESS);
  ASSERT_EQ(simcudaWriteTag(stream, inside, kPage, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(outside, stream), CUDA_ERROR_INVALID_VALUE) << "not the graph's";
  ASSERT_EQ(cuMemFreeAsync(inside, stream), CUDA_SUCCESS);
  const CUgraph graph = End(stream);
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFree(outside), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPhysicalBytes(0), kPage) << "the graph's";
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPhysicalBytes(0), 0u);
}

TEST_F(Captures, TwoCapturesDoNotMerge) {
  const CUstream one = MakeStream(), other = MakeStream();
  const CUevent event = MakeEvent();
  ASSERT_EQ(cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, one), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamWaitEvent(other, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
  End(one, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  End(other, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

// A stream's end ends the capture that began in it. One that it has joined goes on, as on an H200; what the stream has
// captured must lead to the origin as ever.
TEST_F(Captures, StreamsThatEndLeave) {
  const CUstream origin = MakeStream();
  const CUevent fork = MakeEvent(), join = MakeEvent();
  const auto joined_and_gone = [&](bool works, bool joins) {
    const CUstream side = MakeStream();
    EXPECT_EQ(cuEventRecord(fork, origin), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamWaitEvent(side, fork, 0), CUDA_SUCCESS);
    if (works)
      cuLaunchHostFunc(
          side, [](void*) {}, nullptr);
    EXPECT_EQ(cuEventRecord(join, side), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(side), CUDA_SUCCESS);
    EXPECT_EQ(Status(origin), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    if (joins) cuStreamWaitEvent(origin, join, 0);
  };
  ASSERT_EQ(cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  joined_and_gone(false, false);
  joined_and_gone(true, true);
  EXPECT_NE(End(origin), nullptr);
  ASSERT_EQ(cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  joined_and_gone(true, false);
  End(origin, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  CUdeviceptr block = 0;
  ASSERT_EQ(cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc(&block, kPage), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  ASSERT_EQ(cuStreamDestroy(origin), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc(&block, kPage), CUDA_SUCCESS);
}

TEST_F(Captures, UncapturedWorkIsIsolated) {
  const CUdeviceptr block = Allocate(kPage);
  const CUstream stream = MakeStream(), outside = MakeStream();
  const CUevent event = MakeEvent();
  simcudaWriteTag(outside, block, 64, 1);
  ASSERT_EQ(cuEventRecord(event, outside), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamWaitEvent(stream, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  End(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

}  // namespace
}  // namespace stalloc::simcuda
