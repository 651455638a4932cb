// Streams lag behind the host; order between them is what events, waits and the legacy stream make it.
#include <atomic>
#include <chrono>
#include <future>
#include <set>
#include <thread>
#include <vector>

#include "simulated_device.h"

namespace stalloc::simcuda {
namespace {

class Streams : public SimulatedDevice {};
class LazyStreams : public LazyDevice {};

TEST_F(LazyStreams, NothingExecutesBeforeAWait) {
  const CUdeviceptr block = Allocate(kPage);
  const CUstream one = MakeStream(), other = MakeStream();
  simcudaWriteTag(one, block, 64, 1);
  simcudaWriteTag(other, block + 64, 64, 2);
  EXPECT_EQ(simcudaPendingOperations(), 2u);
  ASSERT_EQ(cuStreamSynchronize(one), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPendingOperations(), 1u) << "the other stream has nothing to do with it";
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPendingOperations(), 0u);
}

// The hazard that the simulation is for: memory freed on one stream is used on another while the first one's work is
// still to come.
//   A: write 1 ............ read 1
//   B:         write 2 (too early)
TEST_F(LazyStreams, ReuseBeforeTheLastReadIsSeen) {
  const CUdeviceptr block = Allocate(kPage);
  const CUstream a = MakeStream(), b = MakeStream();
  simcudaWriteTag(a, block, kPage, 1);
  ASSERT_EQ(cuStreamSynchronize(a), CUDA_SUCCESS);
  simcudaReadTag(a, block, kPage, 1);
  simcudaWriteTag(b, block + 512, 512, 2);
  ASSERT_EQ(cuStreamSynchronize(b), CUDA_SUCCESS);
  EXPECT_EQ(simcudaCorruptions(), 0u);
  ASSERT_EQ(cuStreamSynchronize(a), CUDA_SUCCESS);
  EXPECT_EQ(simcudaCorruptions(), 1u);
  EXPECT_NE(FirstCorruption().find("found tag 2"), std::string::npos) << FirstCorruption();
}

TEST_F(LazyStreams, AnEventBetweenThemPreventsIt) {
  const CUdeviceptr block = Allocate(kPage);
  const CUstream a = MakeStream(), b = MakeStream();
  const CUevent event = MakeEvent();
  simcudaWriteTag(a, block, kPage, 1);
  simcudaReadTag(a, block, kPage, 1);
  ASSERT_EQ(cuEventRecord(event, a), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(b, event, 0), CUDA_SUCCESS);
  simcudaWriteTag(b, block, kPage, 2);
  ASSERT_EQ(cuStreamSynchronize(b), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(a), CUDA_SUCCESS);
  EXPECT_EQ(simcudaCorruptions(), 0u) << FirstCorruption();
}

// Over many seeds an unordered reuse shows in at least one, an ordered one in none.
TEST_F(Streams, SomeSeedShowsAnUnorderedReuse) {
  for (const bool ordered : {false, true}) {
    std::uint64_t corruptions = 0;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      Reset({.seed = seed});
      ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
      ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
      ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
      const CUdeviceptr block = Allocate(kPage);
      const CUstream a = MakeStream(), b = MakeStream();
      const CUevent event = MakeEvent();
      for (int i = 0; i < 4; ++i) {
        simcudaWriteTag(a, block, kPage, 1);
        simcudaReadTag(a, block, kPage, 1);
        cuEventRecord(event, a);
        if (ordered) cuStreamWaitEvent(b, event, 0);
        simcudaWriteTag(b, block, kPage, 2);
        simcudaReadTag(b, block, kPage, 2);
        cuEventRecord(event, b);
        if (ordered) cuStreamWaitEvent(a, event, 0);
      }
      ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
      corruptions += simcudaCorruptions();
    }
    if (ordered)
      EXPECT_EQ(corruptions, 0u);
    else
      EXPECT_GT(corruptions, 0u);
  }
}

TEST_F(Streams, TheSameSeedGivesTheSameRun) {
  const auto polls = [&](std::uint64_t seed) {
    Reset({.seed = seed});
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context_, 0);
    cuCtxSetCurrent(context_);
    const CUdeviceptr block = Allocate(kPage);
    std::vector<int> counts;
    const CUstream a = MakeStream(), b = MakeStream();
    for (int i = 0; i < 20; ++i) {
      simcudaWriteTag(a, block, 64, 1);
      simcudaWriteTag(b, block + 64, 64, 1);
      int count = 1;
      while (cuStreamQuery(a) == CUDA_ERROR_NOT_READY) ++count;
      counts.push_back(count);
    }
    return counts;
  };
  const std::vector<int> first = polls(5);
  EXPECT_EQ(first, polls(5));
  EXPECT_NE(first, polls(6));
  EXPECT_GT(std::set<int>(first.begin(), first.end()).size(), 1u) << "lag varies";
}

TEST_F(Streams, NoLagExecutesAtOnce) {
  Reset({.max_pending = 0});
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  const CUdeviceptr block = Allocate(kPage);
  simcudaWriteTag(MakeStream(), block, 64, 1);
  EXPECT_EQ(simcudaPendingOperations(), 0u);
}

TEST_F(LazyStreams, LegacyStreamFollowsBlockingStreamsAndTheyFollowIt) {
  const CUdeviceptr block = Allocate(kPage);
  const CUstream blocking = MakeStream(CU_STREAM_DEFAULT), free_running = MakeStream(CU_STREAM_NON_BLOCKING);
  simcudaWriteTag(blocking, block, 64, 1);
  simcudaWriteTag(free_running, block + 64, 64, 2);
  simcudaReadTag(nullptr, block, 64, 1);  // after the blocking stream
  simcudaWriteTag(nullptr, block, 64, 3);
  simcudaReadTag(blocking, block, 64, 3);  // after the legacy stream
  ASSERT_EQ(cuStreamSynchronize(blocking), CUDA_SUCCESS);
  EXPECT_EQ(simcudaCorruptions(), 0u) << FirstCorruption();
  EXPECT_EQ(simcudaPendingOperations(), 1u) << "the non-blocking stream stands apart";
}

TEST_F(LazyStreams, PerThreadStreamsAreOnePerThreadAndBlocking) {
  unsigned long long mine = 0, theirs = 0, again = 0;
  ASSERT_EQ(cuStreamGetId(CU_STREAM_PER_THREAD, &mine), CUDA_SUCCESS);
  std::thread([&] {
    cuCtxSetCurrent(context_);
    EXPECT_EQ(cuStreamGetId(CU_STREAM_PER_THREAD, &theirs), CUDA_SUCCESS);
  }).join();
  ASSERT_EQ(cuStreamGetId(CU_STREAM_PER_THREAD, &again), CUDA_SUCCESS);
  EXPECT_EQ(mine, again);
  EXPECT_NE(mine, theirs);
  const CUdeviceptr block = Allocate(kPage);
  simcudaWriteTag(CU_STREAM_PER_THREAD, block, 64, 1);
  simcudaReadTag(CU_STREAM_LEGACY, block, 64, 1);
  ASSERT_EQ(cuStreamSynchronize(CU_STREAM_LEGACY), CUDA_SUCCESS);
  EXPECT_EQ(simcudaCorruptions(), 0u);
}

TEST_F(Streams, HandlesComeBackButIdsDoNot) {
  const CUstream first = MakeStream();
  unsigned long long first_id = 0, second_id = 0;
  ASSERT_EQ(cuStreamGetId(first, &first_id), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamDestroy(first), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(first), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamGetId(first, &first_id), CUDA_ERROR_INVALID_HANDLE);
  const CUstream second = MakeStream();
  EXPECT_EQ(second, first);
  ASSERT_EQ(cuStreamGetId(second, &second_id), CUDA_SUCCESS);
  EXPECT_NE(first_id, second_id);
}

TEST_F(LazyStreams, WorkOfADestroyedStreamStillExecutes) {
  const CUdeviceptr block = Allocate(kPage);
  const CUstream stream = MakeStream(), reader = MakeStream();
  simcudaWriteTag(stream, block, 64, 9);
  ASSERT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  simcudaReadTag(reader, block, 64, 9);
  ASSERT_EQ(cuStreamSynchronize(reader), CUDA_SUCCESS);
  EXPECT_EQ(simcudaCorruptions(), 0u);
}

TEST_F(Streams, HostFunctionsRunInOrderAndMayNotCallCuda) {
  struct Seen {
    std::vector<CUresult> results;
  } seen;
  const CUstream stream = MakeStream();
  const CUhostFn function = [](void* argument) {
    CUdeviceptr address = 0;
    static_cast<Seen*>(argument)->results.push_back(cuMemAlloc(&address, 64));
  };
  ASSERT_EQ(cuLaunchHostFunc(stream, function, &seen), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchHostFunc(stream, function, &seen), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(seen.results, std::vector<CUresult>(2, CUDA_ERROR_NOT_PERMITTED));
}

TEST_F(LazyStreams, AHostFunctionMayWaitForWhatTheProgramDoesLater) {
  std::atomic<bool> go{false};
  const CUstream stream = MakeStream();
  const CUhostFn function = [](void* flag) {
    while (!*static_cast<std::atomic<bool>*>(flag)) std::this_thread::yield();
  };
  ASSERT_EQ(cuLaunchHostFunc(stream, function, &go), CUDA_SUCCESS);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  go = true;
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
}

TEST_F(LazyStreams, AHostFunctionComesEvenIfNobodyWaits) {
  const CUdeviceptr block = Allocate(kPage);
  const CUstream stream = MakeStream();
  std::promise<void> called;
  simcudaWriteTag(stream, block, 64, 1);
  const CUhostFn function = [](void* promise) { static_cast<std::promise<void>*>(promise)->set_value(); };
  ASSERT_EQ(cuLaunchHostFunc(stream, function, &called), CUDA_SUCCESS);
  simcudaWriteTag(stream, block, 64, 2);
  EXPECT_EQ(called.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_GE(simcudaPendingOperations(), 1u) << "what is behind it still lags";
}

TEST_F(Streams, ThreadsMayUseTheDeviceTogether) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread] {
      ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
      const CUstream stream = MakeStream();
      const auto tag = static_cast<std::uint64_t>(thread + 1);
      for (int i = 0; i < 200; ++i) {
        CUdeviceptr block = 0;
        ASSERT_EQ(cuMemAllocAsync(&block, kPage, stream), CUDA_SUCCESS);
        ASSERT_EQ(simcudaWriteTag(stream, block, kPage, tag), CUDA_SUCCESS);
        ASSERT_EQ(simcudaReadTag(stream, block, kPage, tag), CUDA_SUCCESS);
        ASSERT_EQ(cuMemFreeAsync(block, stream), CUDA_SUCCESS);
        if (i % 10 == 0) {
          ASSERT_EQ(cuLaunchHostFunc(
                        stream, [](void*) { std::this_thread::yield(); }, nullptr),
                    CUDA_SUCCESS);
          ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
        }
      }
      ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(simcudaCorruptions(), 0u) << FirstCorruption();
}

}  // namespace
}  // namespace stalloc::simcuda
