// Several contexts of one device, over the simulated device, where nothing executes before it is waited for: the
// streams of one are ordered behind another's by waits that the runtime inserts, each made in the right context.
// tests/interpose/programs/context_order.h has the same by a program's own calls.
#include <gtest/gtest.h>
#include <pthread.h>

#include <set>
#include <thread>

#include "contexts_fixture.h"
#include "runtime/base/thread_identity.h"

namespace stalloc::runtime {
namespace {

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
  memory_->ForgetContext(made_, made_);
  memory_->NoteContext(made_, made_);
  EXPECT_EQ(PendingAfterFree(kMade, {primary_, made_}, primary_), 0u) << "not known: everywhere";
}

// A context that the driver does not destroy is as it was.
TEST_F(DeviceContexts, OneThatStaysKeepsItsBlocks) {
  EXPECT_EQ(PendingAfterFree(kMade, {primary_}, made_), 1u);
  memory_->ContextStays(memory_->ForgetContext(made_, nullptr));
  EXPECT_EQ(PendingAfterFree(kMade, {primary_}, made_), 1u);
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
  memory_->ForgetContext(in_green, in_green);
  EXPECT_EQ(PendingAfterFree(kGreen, {primary_}, primary_), 0u);
  EXPECT_EQ(PendingAfterFree(kGreen, {made_}, primary_), 1u);
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
