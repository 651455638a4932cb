// Contexts: primary and made ones, the thread's stack of them, what dies with them.
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "simulated_device.h"

namespace stalloc::simcuda {
namespace {

TEST(NoContext, CallsSaySo) {
  Reset({});
  int count = 0;
  EXPECT_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  CUdeviceptr address = 0;
  CUcontext context = reinterpret_cast<CUcontext>(1);
  CUdevice device = 0;
  CUstream stream = nullptr;
  EXPECT_EQ(cuMemAlloc(&address, 64), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuMemGetInfo(nullptr, nullptr), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuMemAllocAsync(&address, 64, nullptr), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  EXPECT_EQ(context, nullptr);
  CUmemoryPool pool = nullptr;
  EXPECT_EQ(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS) << "needs none";
}

class Contexts : public SimulatedDevice {
 protected:
  Contexts() : SimulatedDevice({.device_count = 2}) {}
};

TEST_F(Contexts, AreAStackPerThread) {
  CUcontext made = nullptr, current = nullptr;
  ASSERT_EQ(cuCtxCreate(&made, nullptr, 0, 1), CUDA_SUCCESS);
  CUdevice device = -1;
  ASSERT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 1);
  std::thread([&] {
    CUcontext theirs = made;
    EXPECT_EQ(cuCtxGetCurrent(&theirs), CUDA_SUCCESS);
    EXPECT_EQ(theirs, nullptr);
  }).join();
  ASSERT_EQ(cuCtxPopCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, made);
  ASSERT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, context_);
  ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxPopCurrent(&current), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(Contexts, ThePrimaryOneIsSharedAndCounted) {
  CUcontext again = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&again, 0), CUDA_SUCCESS);
  EXPECT_EQ(again, context_);
  const CUdeviceptr block = Allocate(kPage);
  unsigned flags = 0;
  int active = 0;
  ASSERT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 1);
  ASSERT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
  EXPECT_EQ(cuMemFree(block), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(Contexts, DestroyingOneTakesItsBlocksStreamsAndEvents) {
  CUcontext made = nullptr;
  ASSERT_EQ(cuCtxCreate(&made, nullptr, 0, 0), CUDA_SUCCESS);
  const CUstream stream = MakeStream();
  const CUevent event = MakeEvent();
  const CUdeviceptr block = Allocate(kPage);
  EXPECT_EQ(simcudaPhysicalBytes(0), kPage);
  simcudaWriteTag(stream, block, kPage, 1);
  ASSERT_EQ(cuCtxDestroy(made), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPhysicalBytes(0), 0u);
  EXPECT_EQ(simcudaPendingOperations(), 0u);
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuCtxDestroy(made), CUDA_ERROR_INVALID_CONTEXT);
  CUcontext current = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, context_) << "it was popped";
}

TEST_F(Contexts, VirtualMemoryAndPoolsBelongToTheDevice) {
  CUcontext made = nullptr;
  ASSERT_EQ(cuCtxCreate(&made, nullptr, 0, 0), CUDA_SUCCESS);
  CreatePages(1);
  CUdeviceptr block = 0;
  ASSERT_EQ(cuMemAllocAsync(&block, 64, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxDestroy(made), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPhysicalBytes(0), kPage + (std::uint64_t{32} << 20)) << "a page, and what a pool grows by";
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
}

TEST_F(Contexts, AFreeNeedsNoneButWithStreamOrder) {
  const CUdeviceptr block = Allocate(64), other = Allocate(64);
  ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(other, nullptr), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(block), CUDA_ERROR_INVALID_VALUE) << "freed already";
}

TEST_F(Contexts, AnErrorBreaksOnlyTheContextItHappenedIn) {
  CUcontext made = nullptr;
  ASSERT_EQ(cuCtxCreate(&made, nullptr, 0, 0), CUDA_SUCCESS);
  simcudaWriteTag(nullptr, 0x4000'0000'0000, 64, 1);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc(&address, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc(&address, 64), CUDA_SUCCESS);
}

TEST_F(Contexts, AreOfNoUseToAForkedChild) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    CUdeviceptr address = 0;
    const bool refused =
        cuMemAlloc(&address, 64) == CUDA_ERROR_NOT_INITIALIZED && cuInit(0) == CUDA_ERROR_NOT_INITIALIZED;
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(Contexts, ResetMakesEverythingBeforeInvalid) {
  const CUstream stream = MakeStream();
  Reset({});
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  CUcontext current = context_;
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, nullptr);
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
}

// Contexts of the same memory as the primary one, which lives while there is one of them.
TEST_F(Contexts, GreenOnesUseThePrimarysMemory) {
  CUgreenCtx green = nullptr;
  CUcontext context = nullptr, primary = nullptr;
  ASSERT_EQ(cuGreenCtxCreate(&green, nullptr, 1, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuGreenCtxCreate(&green, nullptr, 1, CU_GREEN_CTX_DEFAULT_STREAM), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxFromGreenCtx(&context, green), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  CUdeviceptr block = 0;
  CUdevice device = -1;
  ASSERT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 1);
  ASSERT_EQ(cuMemAlloc(&block, 1000), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDestroy(context), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&primary, 1), CUDA_SUCCESS);
  EXPECT_NE(primary, context);
  ASSERT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_EQ(cuCtxSetCurrent(primary), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
  ASSERT_EQ(cuGreenCtxCreate(&green, nullptr, 1, CU_GREEN_CTX_DEFAULT_STREAM), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
  unsigned flags = 0;
  int active = 0;
  ASSERT_EQ(cuDevicePrimaryCtxGetState(1, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 1);
  ASSERT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxGetState(1, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
}

// Streams and events are of one context, and nothing orders the default streams of two.
class TwoContexts : public LazyDevice {
 protected:
  TwoContexts() { EXPECT_EQ(cuCtxCreate(&made_, nullptr, 0, 0), CUDA_SUCCESS); }
  CUcontext made_ = nullptr;  // current
};

TEST_F(TwoContexts, HaveEventsOfTheirOwn) {
  const CUevent event = MakeEvent();
  const CUstream stream = MakeStream();
  EXPECT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS) << "the stream says its context";
  EXPECT_EQ(cuEventRecord(event, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventRecord(MakeEvent(), stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamWaitEvent(nullptr, event, 0), CUDA_SUCCESS) << "anybody may wait";
}

TEST_F(TwoContexts, DoNotWaitForEachOther) {
  for (const CUstream stream : {CUstream{}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    const CUdeviceptr block = Allocate(kPage);
    ASSERT_EQ(cuCtxSetCurrent(made_), CUDA_SUCCESS);
    simcudaWriteTag(stream, block, kPage, 1);
    ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    simcudaWriteTag(stream, block, kPage, 2);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(simcudaPendingOperations(), 1u);
    ASSERT_EQ(cuCtxSetCurrent(made_), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
  }
}

// A free waits for the context that the block is of, whichever is current.
TEST_F(TwoContexts, AFreeWaitsForTheBlocksOwn) {
  const CUdeviceptr of_made = Allocate(kPage), written_there = Allocate(kPage);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  const CUdeviceptr of_primary = Allocate(kPage), small_of_primary = Allocate(kPage / 2);
  for (const CUcontext current : {context_, made_}) {
    ASSERT_EQ(cuCtxSetCurrent(made_), CUDA_SUCCESS);
    simcudaWriteTag(nullptr, written_there, kPage, 1);
    ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    simcudaWriteTag(nullptr, of_primary, kPage, 2);
    ASSERT_EQ(cuCtxSetCurrent(current), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(current == context_ ? small_of_primary : of_primary), CUDA_SUCCESS);
    EXPECT_EQ(simcudaPendingOperations(), 1u) << "the made one's";
    EXPECT_EQ(simcudaAdvance(8), 1u);
  }
  ASSERT_EQ(cuCtxSetCurrent(made_), CUDA_SUCCESS);
  simcudaWriteTag(nullptr, of_made, kPage, 1);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(of_made), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPendingOperations(), 0u);
  // A pool's is no context's.
  CUdeviceptr pooled = 0;
  ASSERT_EQ(cuMemAllocAsync(&pooled, kPage, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(made_), CUDA_SUCCESS);
  simcudaWriteTag(nullptr, written_there, kPage, 3);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(pooled), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPendingOperations(), 0u);
}

TEST_F(TwoContexts, ThePrimaryWaitsForItsGreenOnes) {
  CUgreenCtx green = nullptr;
  CUcontext in_green = nullptr;
  const CUdeviceptr block = Allocate(kPage);
  ASSERT_EQ(cuGreenCtxCreate(&green, nullptr, 0, CU_GREEN_CTX_DEFAULT_STREAM), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxFromGreenCtx(&in_green, green), CUDA_SUCCESS);
  for (const bool other_way : {false, true}) {
    ASSERT_EQ(cuCtxSetCurrent(other_way ? context_ : in_green), CUDA_SUCCESS);
    simcudaWriteTag(nullptr, block, kPage, 1);
    ASSERT_EQ(cuCtxSetCurrent(other_way ? in_green : context_), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(simcudaPendingOperations(), other_way ? 1u : 0u);
  }
}

}  // namespace
}  // namespace stalloc::simcuda
