// Contexts that end, over the simulated device: what they have freed is nobody's before their work is over, and nothing
// of theirs is kept beyond them, for their handles and those of their events come back.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <set>
#include <thread>
#include <utility>

#include "contexts_fixture.h"

namespace stalloc::runtime {
namespace {

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
    const DeviceMemory::Ending ending = memory_->ForgetContext(passing, passing);
    EXPECT_FALSE(memory_->IsUsedIn(passing));
    EXPECT_EQ(cuCtxDestroy(passing), CUDA_SUCCESS);
    memory_->ContextHasEnded(ending);
    Enter(primary_);
    UseAll({nullptr, primary_});
  }
  EXPECT_EQ(handles.size(), 1u) << "the test needs a handle that comes back";
  EXPECT_EQ(memory_->Counters().waits_inserted, 20u) << "four a round, none for what has ended";
  EXPECT_EQ(HostWaits(), 5u) << "one for each that ends";
}

// It could not be waited for: what was freed in its order is nobody's before the driver has destroyed it.
TEST_F(DeviceContexts, OneThatEndsAtWorkKeepsWhatItHasFreed) {
  for (const bool alone : {true, false}) {
    if (!alone) {
      Enter(primary_);
      UseAll({nullptr, primary_});  // and from here on it is told apart what was freed in whose order
    }
    const CUcontext passing = alone ? made_ : Make();
    Enter(passing);
    UseAll({nullptr, passing});
    const DeviceMemory::Ending ending = memory_->ForgetContext(passing, nullptr);
    EXPECT_FALSE(memory_->IsUsedIn(passing));
    Enter(primary_);
    DeviceMemory::captures_in_progress = 1;  // so nobody can be waited for
    EXPECT_EQ(memory_->Allocate(kBytes, DeviceMemory::Order{nullptr, primary_}, 0).result, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(memory_->Trim(0), 0u);
    EXPECT_NE(simcudaPendingOperations(), 0u);
    EXPECT_EQ(cuCtxDestroy(passing), CUDA_SUCCESS);
    const CUcontext next = Make();
    EXPECT_EQ(next, passing) << "the test needs a handle that comes back";
    memory_->ContextHasEnded(ending);
    EXPECT_TRUE(memory_->IsUsedIn(next));
    const auto block = memory_->Allocate(kBytes, DeviceMemory::Order{nullptr, next}, 0);
    EXPECT_EQ(block.result, CUDA_SUCCESS);
    DeviceMemory::captures_in_progress = 0;
    EXPECT_EQ(memory_->Free(block.address, DeviceMemory::Order{nullptr, next}), CUDA_SUCCESS);
    EXPECT_EQ(HostWaits(), 0u);
  }
}

// Where it can be waited for, everything is had before the driver has destroyed it; where the driver refuses to, too.
TEST_F(DeviceContexts, OneThatEndsIsWaitedForAsLongAsItLives) {
  for (const bool refused : {false, true}) {
    Enter(made_);
    UseAll({nullptr, made_});
    const DeviceMemory::Ending ending = memory_->ForgetContext(made_, nullptr);
    if (refused) {
      memory_->ContextStays(ending);
      EXPECT_TRUE(memory_->IsUsedIn(made_));
    }
    Enter(primary_);
    const std::uint64_t waited = HostWaits();
    UseAll({nullptr, primary_});
    EXPECT_GT(HostWaits(), waited);
    Synchronise(primary_);
    if (refused) return;
    memory_->ContextStays(ending);
  }
}

// What the runtime does with events, and what happens meanwhile, once each.
struct WatchedEvents : DeviceContexts {
  struct Watched {
    std::multiset<CUevent> asked, recorded;
    std::function<void(CUevent)> before_event_query;
    std::function<void(CUstream)> after_stream_query;
    std::function<void()> before_context_wait, after_context_wait;
    std::function<void()> no_page;  // the next one that is to be made is not
    DriverApi driver;
  };

  Watched& WatchEvents() {
    static Watched watched;
    watched = {};
    watched.driver = driver_;
    driver_.cuEventQuery = [](CUevent event) {
      if (watched.before_event_query) std::exchange(watched.before_event_query, nullptr)(event);
      watched.asked.insert(event);
      return watched.driver.cuEventQuery(event);
    };
    driver_.cuEventRecord = [](CUevent event, CUstream stream) {
      watched.recorded.insert(event);
      return watched.driver.cuEventRecord(event, stream);
    };
    driver_.cuStreamQuery = [](CUstream stream) {
      const CUresult result = watched.driver.cuStreamQuery(stream);
      if (watched.after_stream_query) std::exchange(watched.after_stream_query, nullptr)(stream);
      return result;
    };
    driver_.cuMemCreate = [](CUmemGenericAllocationHandle* handle, std::size_t bytes, const CUmemAllocationProp* kind,
                             unsigned long long flags) {
      if (!watched.no_page) return watched.driver.cuMemCreate(handle, bytes, kind, flags);
      std::exchange(watched.no_page, nullptr)();
      return CUDA_ERROR_OUT_OF_MEMORY;
    };
    driver_.cuCtxSynchronize = [] {
      if (watched.before_context_wait) std::exchange(watched.before_context_wait, nullptr)();
      const CUresult result = watched.driver.cuCtxSynchronize();
      if (watched.after_context_wait) std::exchange(watched.after_context_wait, nullptr)();
      return result;
    };
    return watched;
  }

  // Another thread, in which something of what this one has in hands ends. It must wait for this one.
  template <typename End>
  void BeginToEnd(End end) {
    ending_ = std::thread([this, end] {
      end();
      ended_ = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(ended_);
  }
  void AwaitEnd() {
    ASSERT_TRUE(ending_.joinable()) << "nobody asked";
    ending_.join();
    EXPECT_TRUE(ended_.exchange(false));
  }

  std::thread ending_;
  std::atomic<bool> ended_{false};
};

// A thread is about to record a marker in a context's stream, and has asked whether that is idle, when the context
// begins to end.
TEST_F(WatchedEvents, AnEventThatIsMadeWhileItsContextEndsIsNotKept) {
  Watched& watched = WatchEvents();
  Enter(primary_);
  const CUstream other = NewStream();
  UseAll({other, primary_});
  UseAll({nullptr, primary_});
  Synchronise(primary_);
  memory_->Trim(0);
  const CUcontext passing = Make();
  Enter(passing);
  const CUstream stream = NewStream();
  UseAll({stream, passing});
  DeviceMemory::Ending ending = 0;
  watched.after_stream_query = [&](CUstream) {
    BeginToEnd([&] { ending = memory_->ForgetContext(passing, nullptr); });
  };
  memory_->Trim(0);
  AwaitEnd();
  const CUcontext next = EndAndComeBack(passing, ending);
  std::set<CUevent> own;
  for (int i = 0; i < 8; ++i) {
    CUevent event = nullptr;
    EXPECT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    own.insert(event);
  }
  watched.asked.clear();
  watched.recorded.clear();
  memory_->NoteContext(next, next);
  for (int round = 0; round < 4; ++round) {
    Enter(next);
    UseAll({nullptr, next});
    Enter(primary_);
    UseAll({other, primary_});
    memory_->Trim(0);
  }
  for (const CUevent event : own) {
    EXPECT_EQ(watched.asked.count(event), 0u);
    EXPECT_EQ(watched.recorded.count(event), 0u);
  }
}

// A thread has taken a marker out, to ask for its event, when the context begins to end; and once it has, its handle
// and the event's come back for others, the program's own.
TEST_F(WatchedEvents, AnEventInAThreadsHandsEndsAfterItWasAskedForAndIsNotKept) {
  Watched& watched = WatchEvents();
  Enter(primary_);
  const CUstream other = NewStream();
  UseAll({other, primary_});
  for (const bool passed : {true, false}) {
    const CUcontext passing = Make();
    Enter(passing);
    const CUstream stream = NewStream();
    UseAll({stream, passing});
    CUevent in_hands = nullptr;
    DeviceMemory::Ending ending = 0;
    watched.before_event_query = [&](CUevent event) {
      in_hands = event;
      if (passed) Synchronise(passing);
      BeginToEnd([&] { ending = memory_->ForgetContext(passing, passed ? passing : nullptr); });
    };
    memory_->Trim(0);
    AwaitEnd();
    const CUcontext next = EndAndComeBack(passing, ending);
    CUevent own = nullptr;
    EXPECT_EQ(cuEventCreate(&own, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    EXPECT_EQ(own, in_hands) << "likewise";
    watched.asked.clear();
    watched.recorded.clear();
    for (int round = 0; round < 4; ++round) {
      Enter(next);
      UseAll({nullptr, next});
      Enter(primary_);
      UseAll({other, primary_});
      memory_->Trim(0);
    }
    EXPECT_GT(watched.recorded.size(), 0u);
    EXPECT_EQ(watched.asked.count(own), 0u);
    EXPECT_EQ(watched.recorded.count(own), 0u);
    Synchronise(next);
    const DeviceMemory::Ending next_ending = memory_->ForgetContext(next, next);
    EXPECT_EQ(cuCtxDestroy(next), CUDA_SUCCESS);
    memory_->ContextHasEnded(next_ending);
  }
}

// What is freed while the end of its context is waited for has not been waited for, and the driver may refuse the end.
TEST_F(WatchedEvents, WhatIsFreedWhileAnEndIsWaitedForMayBeInUse) {
  Watched& watched = WatchEvents();
  for (const bool alone : {true, false}) {
    if (!alone) {
      Enter(primary_);
      UseAll({nullptr, primary_});  // and from here on it is told apart what was freed in whose order
    }
    for (const bool used_before : {false, true}) {
      Enter(made_);
      if (used_before) UseAll({nullptr, made_});
      watched.after_context_wait = [&] { UseAll({nullptr, made_}); };
      const DeviceMemory::Ending ending = memory_->ForgetContext(made_, made_);
      Enter(primary_);
      DeviceMemory::captures_in_progress = 1;  // so nobody can be waited for
      for (const bool refused : {false, true}) {
        if (refused) memory_->ContextStays(ending);
        EXPECT_EQ(memory_->Allocate(kBytes, DeviceMemory::Order{nullptr, primary_}, 0).result,
                  CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_EQ(memory_->Trim(0), 0u);
      }
      DeviceMemory::captures_in_progress = 0;
      EXPECT_NE(simcudaPendingOperations(), 0u);
      UseAll({nullptr, primary_});
      Synchronise(primary_);
    }
  }
}

// The first stream's work is under way when its idle memory is to be given back; and while it is asked for, a second
// stream comes. What stays is the first one's until its work is over.
TEST_F(WatchedEvents, ASecondStreamComesWhileMemoryIsToBeGivenBack) {
  Watched& watched = WatchEvents();
  memory_ = std::make_unique<DeviceMemory>(driver_, 0, 0, MemoryPolicy{.limit_bytes = 2 * kBytes});
  ASSERT_EQ(memory_->Initialise(), CUDA_SUCCESS);
  Enter(primary_);
  const CUstream first = NewStream(), second = NewStream();
  UseAll({first, primary_});
  watched.after_stream_query = [&](CUstream) {
    watched.after_stream_query = [&](CUstream) {
      EXPECT_EQ(memory_->Allocate(512, DeviceMemory::Order{second, primary_}, 0).result, CUDA_SUCCESS);
    };
  };
  EXPECT_EQ(memory_->Trim(0), 0u);
  EXPECT_FALSE(watched.after_stream_query) << "the test needs two questions";
  EXPECT_NE(simcudaPendingOperations(), 0u);
  const std::uint64_t waits = memory_->Counters().waits_inserted;
  UseAll({second, primary_});
  EXPECT_EQ(memory_->Counters().waits_inserted, waits + 1);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
}

// The same where the first stream's request takes its idle memory and more, which the driver refuses it.
TEST_F(WatchedEvents, ASecondStreamComesWhileTheDriverRefusesMemory) {
  Watched& watched = WatchEvents();
  memory_ = std::make_unique<DeviceMemory>(driver_, 0, 0, MemoryPolicy{.limit_bytes = 3 * kBytes});
  ASSERT_EQ(memory_->Initialise(), CUDA_SUCCESS);
  Enter(primary_);
  const CUstream first = NewStream(), second = NewStream();
  UseAll({first, primary_});
  watched.no_page = [&] {
    EXPECT_EQ(memory_->Allocate(512, DeviceMemory::Order{second, primary_}, 0).result, CUDA_SUCCESS);
  };
  std::uint64_t waits = 0;
  watched.before_context_wait = [&] {
    EXPECT_NE(simcudaPendingOperations(), 0u);
    UseAll({second, primary_});
    waits = memory_->Counters().waits_inserted;
  };
  const auto block = memory_->Allocate(2 * kBytes, DeviceMemory::Order{first, primary_}, 0);
  EXPECT_EQ(block.result, CUDA_SUCCESS);
  EXPECT_FALSE(watched.before_context_wait) << "the test needs a request that waits for everything";
  EXPECT_EQ(waits, 1u);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
}

// A thread is asking for a stream when another destroys it; and when it gets to a stream that has been destroyed since,
// it asks for nothing.
TEST_F(WatchedEvents, AStreamInAThreadsHandsEndsAfterItWasAskedFor) {
  Watched& watched = WatchEvents();
  Enter(primary_);
  UseAll({nullptr, primary_});
  const CUstream first = NewStream(), second = NewStream();
  UseAll({first, primary_});
  UseAll({second, primary_});
  std::set<CUstream> asked;
  CUstream ends = nullptr;
  watched.after_stream_query = [&](CUstream stream) {
    ends = stream;
    BeginToEnd([&] {
      Enter(primary_);
      memory_->NoteStreamDestroyed({stream, primary_});
    });
  };
  memory_->Trim(0);
  AwaitEnd();
  EXPECT_NE(ends, nullptr);
}

// The one stream of a program whose context ends: the next one's is the one from then on.
TEST_F(DeviceContexts, TheOnlyOneThatEnds) {
  memory_->ForgetContext(made_, made_);
  for (int round = 0; round < 3; ++round) {
    const CUcontext only = Make();
    UseAll({nullptr, only});
    UseAll({nullptr, only});
    memory_->ForgetContext(only, only);
    EXPECT_EQ(cuCtxDestroy(only), CUDA_SUCCESS);
  }
  Enter(primary_);
  EXPECT_EQ(memory_->Counters().waits_inserted, 0u);
  EXPECT_EQ(memory_->Trim(0), kBytes);
}

}  // namespace
}  // namespace stalloc::runtime
