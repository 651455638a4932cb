// Several contexts of one device, over the simulated device, where nothing executes before it is waited for: the
// streams of one are ordered behind another's by waits that the runtime inserts, each made in the right context; what
// has ended leaves nothing behind. tests/interpose/programs/context_order.cpp has the same by a program's own calls.
#include <gtest/gtest.h>
#include <pthread.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/device_memory.h"
#include "runtime/thread_identity.h"
#include "simcuda/device.h"
#include "simcuda/driver_table.h"
#include "simcuda/extensions.h"

namespace stalloc::runtime {
namespace {

constexpr std::size_t kBytes = kPageBytes;

class DeviceContexts : public ::testing::Test {
 protected:
  DeviceContexts() {
    simcuda::Reset({.seed = 0});
    SIMCUDA_FILL_DRIVER_TABLE(driver_, STALLOC_DRIVER_FUNCTIONS);
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&primary_, 0), CUDA_SUCCESS);
    Enter(primary_);
    // One page is all there is: memory of another stream is the only memory.
    memory_ = std::make_unique<DeviceMemory>(driver_, 0, 0, MemoryPolicy{.limit_bytes = kBytes});
    EXPECT_EQ(memory_->Initialise(), CUDA_SUCCESS);
    memory_->NoteContext(primary_, primary_, kPrimary);
    made_ = Make(kMade);
  }
  ~DeviceContexts() override {
    std::string text(simcudaFirstCorruption(nullptr, 0) + 1, '\0');
    simcudaFirstCorruption(text.data(), text.size());
    EXPECT_EQ(simcudaCorruptions(), 0u) << text;
  }

  static void Enter(CUcontext context) { EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS); }
  static void Synchronise(CUcontext context) {
    Enter(context);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  }
  CUcontext Make(DeviceMemory::Owner owner = DeviceMemory::kNoOwner) {
    CUcontext context = nullptr;
    EXPECT_EQ(cuCtxCreate(&context, nullptr, 0, 0), CUDA_SUCCESS);
    memory_->NoteContext(context, context, owner);
    return context;
  }
  static CUstream NewStream() {
    CUstream stream = nullptr;
    EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return stream;
  }

  // All memory, written and still to be read when it is freed: on a stream of the current context.
  void UseAll(DeviceMemory::Order order) {
    const auto block = memory_->Allocate(kBytes, order, 0);
    ASSERT_EQ(block.result, CUDA_SUCCESS);
    const std::uint64_t tag = ++tag_;
    EXPECT_EQ(simcudaWriteTag(order.stream, block.address, kBytes, tag), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(order.stream), CUDA_SUCCESS);
    // Many: who asks whether a stream is idle lets it go on by one.
    for (int i = 0; i < 32; ++i) EXPECT_EQ(simcudaReadTag(order.stream, block.address, kBytes, tag), CUDA_SUCCESS);
    EXPECT_EQ(memory_->Free(block.address, order), CUDA_SUCCESS);
  }
  // Work that nobody has waited for yet.
  static void QueueIn(CUcontext context) {
    Enter(context);
    EXPECT_EQ(cuLaunchHostFunc(
                  nullptr, [](void*) {}, nullptr),
              CUDA_SUCCESS);
  }
  // What is left of one operation in each of `contexts` when a block of `owner` is freed without a stream.
  std::size_t PendingAfterFree(DeviceMemory::Owner owner, const std::vector<CUcontext>& contexts, CUcontext current) {
    Enter(current);
    const auto block = memory_->Allocate(kBytes, std::nullopt, 0, nullptr, owner);
    EXPECT_EQ(block.result, CUDA_SUCCESS);
    for (const CUcontext context : contexts) QueueIn(context);
    Enter(current);
    EXPECT_EQ(memory_->Free(block.address, std::nullopt), CUDA_SUCCESS);
    const std::size_t pending = simcudaPendingOperations();
    for (const CUcontext context : contexts) Synchronise(context);
    return pending;
  }
  std::uint64_t HostWaits() const { return simcudaCallCount("cuCtxSynchronize"); }

  static constexpr DeviceMemory::Owner kPrimary = 1, kMade = 2, kGreen = 3;

  DriverApi driver_;
  CUcontext primary_ = nullptr;
  CUcontext made_ = nullptr;
  std::unique_ptr<DeviceMemory> memory_;
  std::uint64_t tag_ = 0;
};

TEST_F(DeviceContexts, DefaultStreamsWaitForEachOther) {
  for (int round = 0; round < 6; ++round) {
    const CUcontext context = round % 2 == 0 ? made_ : primary_;
    Enter(context);
    UseAll({round % 3 == 0 ? CU_STREAM_LEGACY : nullptr, context});
    EXPECT_EQ(memory_->Counters().waits_inserted, static_cast<std::uint64_t>(round));
  }
  EXPECT_EQ(HostWaits(), 0u);
}

TEST_F(DeviceContexts, AStreamIsAskedInItsOwnContext) {
  Enter(primary_);
  const CUstream here = NewStream();
  Enter(made_);
  const CUstream there = NewStream();
  Enter(primary_);
  for (std::uint64_t round = 0; round < 6; ++round) {
    UseAll(round % 2 == 0 ? DeviceMemory::Order{there, made_} : DeviceMemory::Order{here, primary_});
    EXPECT_EQ(memory_->Counters().waits_inserted, round);
  }
  EXPECT_EQ(HostWaits(), 0u);
}

// What one context's default stream has done says nothing of the other's: not that it is idle, and not to a trim.
TEST_F(DeviceContexts, OneThatIsIdleDoesNotSpeakForTheOther) {
  Enter(made_);
  UseAll({nullptr, made_});
  Enter(primary_);
  EXPECT_EQ(memory_->Trim(0), 0u);
  Synchronise(made_);
  Enter(primary_);
  EXPECT_EQ(memory_->Trim(0), kBytes);
}

TEST_F(DeviceContexts, AllOfThemAreWaitedFor) {
  Enter(made_);
  UseAll({nullptr, made_});
  Enter(primary_);
  EXPECT_EQ(memory_->ReleaseIdle(), kBytes);
  EXPECT_EQ(simcudaPendingOperations(), 0u);
  Enter(made_);
  const auto block = memory_->Allocate(kBytes, std::nullopt, 0);
  EXPECT_EQ(simcudaWriteTag(nullptr, block.address, kBytes, 1), CUDA_SUCCESS);
  Enter(primary_);
  EXPECT_EQ(memory_->Free(block.address, std::nullopt), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPendingOperations(), 0u);
}

// But a block that is one context's own is waited for there alone.
TEST_F(DeviceContexts, ABlocksOwnIsWaitedForAlone) {
  for (const CUcontext current : {primary_, made_}) {
    EXPECT_EQ(PendingAfterFree(kPrimary, {made_}, current), 1u);
    EXPECT_EQ(PendingAfterFree(kPrimary, {primary_}, current), 0u);
    EXPECT_EQ(PendingAfterFree(kMade, {primary_}, current), 1u);
    EXPECT_EQ(PendingAfterFree(kMade, {made_}, current), 0u);
    EXPECT_EQ(PendingAfterFree(DeviceMemory::kNoOwner, {primary_, made_}, current), 0u);
  }
  // One that has ended is not waited for in any other that has its handle.
  memory_->ForgetContext(made_);
  memory_->NoteContext(made_, made_);
  EXPECT_EQ(PendingAfterFree(kMade, {primary_, made_}, primary_), 0u) << "not known: everywhere";
}

// What is allocated in a green context is the primary one's, also when the green one has ended.
TEST_F(DeviceContexts, AGreenOnesBlocksAreThePrimarys) {
  CUgreenCtx green = nullptr;
  CUcontext in_green = nullptr;
  ASSERT_EQ(cuGreenCtxCreate(&green, nullptr, 0, CU_GREEN_CTX_DEFAULT_STREAM), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxFromGreenCtx(&in_green, green), CUDA_SUCCESS);
  memory_->NoteContext(in_green, primary_, kGreen);
  for (const CUcontext current : {in_green, primary_, made_}) {
    EXPECT_EQ(PendingAfterFree(kGreen, {in_green, primary_}, current), 0u);
    EXPECT_EQ(PendingAfterFree(kGreen, {made_}, current), 1u);
  }
  memory_->ForgetContext(in_green);
  EXPECT_EQ(PendingAfterFree(kGreen, {primary_}, primary_), 0u);
  EXPECT_EQ(PendingAfterFree(kGreen, {made_}, primary_), 1u);
}

// An event is of one context, and neither it nor a position in a stream's order outlives that; the handles come back.
TEST_F(DeviceContexts, OneThatEndsTakesItsEventsAlong) {
  Enter(primary_);
  UseAll({nullptr, primary_});
  std::set<CUcontext> handles;
  for (int round = 0; round < 5; ++round) {
    const CUcontext passing = Make();
    handles.insert(passing);
    const CUstream stream = NewStream();
    for (const CUstream s : {CUstream{}, stream}) UseAll({s, passing});
    Enter(primary_);
    UseAll({nullptr, primary_});
    Enter(passing);
    UseAll({nullptr, passing});
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    memory_->ForgetContext(passing);
    EXPECT_FALSE(memory_->IsUsedIn(passing));
    EXPECT_EQ(cuCtxDestroy(passing), CUDA_SUCCESS);
    Enter(primary_);
    UseAll({nullptr, primary_});
  }
  EXPECT_EQ(handles.size(), 1u) << "the test needs a handle that comes back";
  EXPECT_EQ(memory_->Counters().waits_inserted, 20u) << "four a round, none for what has ended";
  EXPECT_EQ(HostWaits(), 5u) << "the test's own";
}

// The one stream of a program whose context ends: the next one's is the one from then on.
TEST_F(DeviceContexts, TheOnlyOneThatEnds) {
  memory_->ForgetContext(made_);
  for (int round = 0; round < 3; ++round) {
    const CUcontext only = Make();
    UseAll({nullptr, only});
    UseAll({nullptr, only});
    Synchronise(only);
    memory_->ForgetContext(only);
    EXPECT_EQ(cuCtxDestroy(only), CUDA_SUCCESS);
  }
  Enter(primary_);
  EXPECT_EQ(memory_->Counters().waits_inserted, 0u);
  EXPECT_EQ(memory_->Trim(0), kBytes);
}

// A green context's streams can be named where it is current alone; the primary one is waited in for it.
TEST_F(DeviceContexts, GreenOnesAreNotEntered) {
  CUgreenCtx green = nullptr;
  CUcontext in_green = nullptr;
  ASSERT_EQ(cuGreenCtxCreate(&green, nullptr, 0, CU_GREEN_CTX_DEFAULT_STREAM), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxFromGreenCtx(&in_green, green), CUDA_SUCCESS);
  memory_->NoteContext(in_green, primary_);
  Enter(in_green);
  UseAll({nullptr, in_green});
  UseAll({nullptr, in_green});
  Enter(primary_);
  const std::uint64_t pushed = simcudaCallCount("cuCtxPushCurrent"), waited = HostWaits();
  UseAll({nullptr, primary_});
  EXPECT_GT(HostWaits(), waited);
  EXPECT_EQ(simcudaCallCount("cuCtxPushCurrent"), pushed + 1) << "into the made one, to wait";
  Enter(in_green);
  UseAll({nullptr, in_green});
}

// As many threads as a program likes, one after the other, each with its own default stream.
TEST_F(DeviceContexts, ThreadsThatEndLeaveRoomForOthers) {
  for (std::size_t i = 0; i < 3 * kMaxStreams; ++i) {
    std::thread([&] {
      const CUcontext context = i % 2 == 0 ? primary_ : made_;
      Enter(context);
      UseAll({CU_STREAM_PER_THREAD, context});
    }).join();
    if (HasFailure()) return;
  }
}

TEST(ThreadIdentity, IsNeverAnothers) {
  std::set<std::uint64_t> numbers = {ThisThread().number};
  EXPECT_EQ(ThisThread().number, *numbers.begin());
  EXPECT_FALSE(ThisThread().ended());
  for (int i = 0; i < 50; ++i) {
    ThreadIdentity theirs;
    std::thread([&] {
      theirs = ThisThread();
      EXPECT_FALSE(theirs.ended());
      EXPECT_TRUE(IsThisThread(theirs));
    }).join();
    EXPECT_TRUE(theirs.ended());
    EXPECT_FALSE(IsThisThread(theirs));
    EXPECT_TRUE(numbers.insert(theirs.number).second);
  }
}

// A thread's later destructors may still ask: that is another thread then, and it too ends.
TEST(ThreadIdentity, SurvivesTheThreadsLastDestructors) {
  const std::uint64_t here = ThisThread().number;  // what it needs is there: destructors of later keys run later
  static ThreadIdentity late;
  pthread_key_t key{};
  ASSERT_EQ(pthread_key_create(&key, [](void*) { late = ThisThread(); }), 0);
  ThreadIdentity early;
  std::thread([&] {
    early = ThisThread();
    EXPECT_EQ(pthread_setspecific(key, &early), 0);
  }).join();
  EXPECT_EQ(pthread_key_delete(key), 0);
  EXPECT_TRUE(early.ended());
  EXPECT_GT(late.number, early.number);
  EXPECT_TRUE(late.ended());
  EXPECT_EQ(ThisThread().number, here);
}

}  // namespace
}  // namespace stalloc::runtime
