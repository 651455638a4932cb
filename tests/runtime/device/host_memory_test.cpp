// The host is out of memory where the runtime is told something that it cannot refuse: streams and contexts end all the
// same, and the learning thread must not end the program.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "contexts_fixture.h"
#include "host_memory.h"
#include "runtime/learning/learning_thread.h"

namespace stalloc::runtime {
namespace {

TEST_F(DeviceContexts, AStreamEndsWithoutHostMemory) {
  Enter(primary_);
  UseAll({nullptr, primary_});
  bool exhausted = true;
  for (int allocations = 0; exhausted; ++allocations) {
    const CUstream stream = NewStream();
    UseAll({stream, primary_});
    {
      const HostMemory memory(allocations);
      memory_->NoteStreamDestroyed({stream, primary_});
      exhausted = HostMemory::exhausted();
    }
    EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
    const CUstream next = NewStream();
    UseAll({next, primary_});  // the handle has come back, what was freed in its order is not this one's
    UseAll({nullptr, primary_});
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(next), CUDA_SUCCESS);
    ASSERT_LT(allocations, 1000);
  }
}

TEST_F(DeviceContexts, AContextEndsWithoutHostMemory) {
  for (const bool over : {true, false}) {
    const CUcontext passing = Make();
    Enter(passing);
    const CUstream stream = NewStream();
    CUevent event = nullptr;
    EXPECT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    for (const CUstream s : {CUstream{}, stream}) UseAll({s, passing});
    memory_->NoteEventRecorded(event, {stream, passing}, memory_->NoteEventRecords(event, {stream, passing}));
    if (over) Synchronise(passing);
    DeviceMemory::Ending ending = 0;
    {
      const HostMemory memory(0);
      ending = memory_->ForgetContext(passing, over ? passing : nullptr);
    }
    EXPECT_EQ(cuCtxDestroy(passing), CUDA_SUCCESS);
    {
      const HostMemory memory(0);
      memory_->ContextHasEnded(ending);
    }
    Enter(primary_);
    const std::uint64_t waited = HostWaits();
    UseAll({nullptr, primary_});
    EXPECT_EQ(HostWaits(), waited);
    Synchronise(primary_);
  }
}

TEST_F(DeviceContexts, LearningEndsWithoutHostMemory) {
  static std::atomic<int> steps{0};
  steps = 0;
  driver_.cuCtxSetCurrent = [](CUcontext context) {
    const CUresult result = cuCtxSetCurrent(context);
    HostMemory::Exhaust();  // of the learning thread, from here on
    ++steps;
    return result;
  };
  static DriverApi driver;  // the thread is not joined: nothing that it looks at may go
  driver = driver_;
  static LearningThread& learning = *new LearningThread(driver);
  Learner learner(*memory_, {});
  learning.Add(&learner, primary_);
  for (int i = 0; i < 500 && steps == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  learning.Remove(&learner);
  EXPECT_FALSE(memory_->observing()) << "nobody fetches what is put down";
  EXPECT_EQ(steps, 1) << "half of what was seen may be lost: it is not tried again";
  learning.Stop();
}

}  // namespace
}  // namespace stalloc::runtime
