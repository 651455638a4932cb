// StallTimer over the simulated device: by itself, and in a DeviceMemory whose streams take turns in all the memory
// that there is. Its events are the runtime's own: they end no capture, and with their context.
#include "runtime/order/stall_timer.h"

#include <gtest/gtest.h>

#include <set>

#include "contexts_fixture.h"

namespace stalloc::runtime {
namespace {

class StallTimers : public ::testing::Test {
 protected:
  StallTimers() {
    simcuda::Reset({.seed = 0});
    SIMCUDA_FILL_DRIVER_TABLE(driver_, STALLOC_DRIVER_FUNCTIONS);
    driver_.cuEventRecord = [](CUevent event, CUstream stream) {
      recorded_.insert(event);
      return cuEventRecord(event, stream);
    };
    recorded_.clear();
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxCreate(&context_, nullptr, 0, 0), CUDA_SUCCESS);
  }
  ~StallTimers() override {
    DeviceMemory::captures_in_progress = 0;
    EXPECT_EQ(simcudaCorruptions(), 0u);
  }

  static CUstream NewStream() {
    CUstream stream = nullptr;
    EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return stream;
  }
  void MakeMemory() {
    memory_ = std::make_unique<DeviceMemory>(driver_, 0, 0, MemoryPolicy{.growth = {}, .limit_bytes = kBytes});
    EXPECT_EQ(memory_->Initialise(), CUDA_SUCCESS);
    memory_->NoteContext(context_, context_);
  }
  // All memory, for a millisecond that is still to come when it is freed.
  void UseAll(CUstream stream) {
    const DeviceMemory::Order order{stream, context_};
    const auto block = memory_->Allocate(kBytes, order, 0);
    ASSERT_EQ(block.result, CUDA_SUCCESS);
    const simcudaRange all{block.address, kBytes, ++tag_};
    EXPECT_EQ(simcudaLaunch(stream, nullptr, 0, &all, 1, 1'000'000), CUDA_SUCCESS);
    EXPECT_EQ(simcudaLaunch(stream, &all, 1, nullptr, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(memory_->Free(block.address, order), CUDA_SUCCESS);
  }
  // The first two frees are one of each stream: from then on the second to ask is the busiest, and is measured.
  void TakeTurns(CUstream a, CUstream b) {
    for (int round = 0; round < 4; ++round) {
      UseAll(a);
      UseAll(b);
    }
  }

  static constexpr std::size_t kBytes = 3 * kPageBytes;
  static inline std::multiset<CUevent> recorded_;  // by the runtime

  DriverApi driver_;
  CUcontext context_ = nullptr;
  std::unique_ptr<DeviceMemory> memory_;
  std::uint64_t tag_ = 0;
};

TEST_F(StallTimers, AWaitThatIsNotOverIsAskedForOnceForAllBehindIt) {
  StallTimer timer(driver_);
  const CUstream stream = NewStream();
  constexpr std::uint64_t kWaits = 10;
  for (std::uint64_t i = 0; i < kWaits; ++i) {
    const StallTimer::Pair pair = timer.Begin(stream);
    EXPECT_EQ(simcudaLaunch(stream, nullptr, 0, nullptr, 0, 2'000'000), CUDA_SUCCESS);
    timer.End(pair, stream);
  }
  std::uint64_t asked = simcudaCallCount("cuEventQuery");
  EXPECT_EQ(timer.TakeStalledNs(), 0u);
  EXPECT_EQ(simcudaCallCount("cuEventQuery") - asked, 1u);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  asked = simcudaCallCount("cuEventQuery");
  EXPECT_NEAR(static_cast<double>(timer.TakeStalledNs()), kWaits * 2e6, 1e3);
  EXPECT_EQ(simcudaCallCount("cuEventQuery") - asked, kWaits);
  const std::uint64_t made = simcudaCallCount("cuEventCreate");
  timer.End(timer.Begin(stream), stream);
  EXPECT_EQ(simcudaCallCount("cuEventCreate"), made) << "events are used again";
}

// Another thread captures in the mode in which no call that might wait may be made anywhere; a request is stitched, and
// it is asked how long the wait before was.
TEST_F(StallTimers, AskingEndsNobodysCapture) {
  MakeMemory();
  const CUstream main = NewStream(), side = NewStream(), capturing = NewStream();
  TakeTurns(side, main);
  ASSERT_GT(memory_->Counters().waits_inserted, 0u);
  const DeviceMemory::Order order{main, context_};
  CUdeviceptr pages[3];
  for (CUdeviceptr& page : pages) page = memory_->Allocate(kPageBytes, order, 0).address;
  for (const int i : {0, 2}) EXPECT_EQ(memory_->Free(pages[i], order), CUDA_SUCCESS);
  const std::uint64_t asked = simcudaCallCount("cuEventQuery"), mapped = memory_->Counters().views;
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  DeviceMemory::captures_in_progress = 1;
  EXPECT_EQ(memory_->Allocate(2 * kPageBytes, order, 0).result, CUDA_SUCCESS);
  DeviceMemory::captures_in_progress = 0;
  EXPECT_EQ(cuStreamEndCapture(capturing, &graph), CUDA_SUCCESS);
  EXPECT_GT(memory_->Counters().views, mapped) << "the test needs a request that is stitched";
  EXPECT_GT(simcudaCallCount("cuEventQuery"), asked);
}

// The next context has the handle of the one before, and its events those of the runtime's own there.
TEST_F(StallTimers, EventsAreNotUsedBeyondTheirContext) {
  MakeMemory();
  TakeTurns(NewStream(), NewStream());
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  TakeTurns(NewStream(), NewStream());  // what has been timed is told
  const std::uint64_t stalled = memory_->Counters().stalled_ns;
  EXPECT_GT(stalled, 0u);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  const std::set<CUevent> before(recorded_.begin(), recorded_.end());
  const CUcontext ended = context_;
  const DeviceMemory::Ending ending = memory_->ForgetContext(ended, ended);
  EXPECT_EQ(cuCtxDestroy(ended), CUDA_SUCCESS);
  memory_->ContextHasEnded(ending);

  EXPECT_EQ(cuCtxCreate(&context_, nullptr, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(context_, ended) << "the test needs a handle that comes back";
  memory_->NoteContext(context_, context_);
  std::set<CUevent> own;
  for (std::size_t i = 0; i < before.size(); ++i) {
    CUevent event = nullptr;
    EXPECT_EQ(cuEventCreate(&event, CU_EVENT_DEFAULT), CUDA_SUCCESS);
    own.insert(event);
  }
  EXPECT_EQ(own, before) << "likewise";
  recorded_.clear();
  TakeTurns(NewStream(), NewStream());
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  TakeTurns(NewStream(), NewStream());
  for (const CUevent event : own) EXPECT_EQ(recorded_.count(event), 0u) << "it is the program's";
  EXPECT_GT(memory_->Counters().stalled_ns, stalled) << "and the waits are measured again";
}

}  // namespace
}  // namespace stalloc::runtime
