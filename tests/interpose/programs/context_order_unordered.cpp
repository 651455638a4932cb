// Memory that was freed without a stream, as cuMemFree does: it is anybody's at once.
#include <atomic>
#include <chrono>
#include <initializer_list>
#include <thread>

#include "context_order.h"

namespace context_order {

// cuMemFree of what the block's own context still works on, in that one and in the other.
void FreedWithoutStream(const Contexts& contexts) {
  for (const CUcontext own : {contexts.first, contexts.second}) {
    for (const CUcontext freeing : {contexts.first, contexts.second}) {
      Enter(own);
      const CUdeviceptr block = Allocate();
      Use(block, nullptr);
      Enter(freeing);
      CHECK(cuMemFree(block) == CUDA_SUCCESS);
      for (const CUcontext other : {contexts.second, contexts.first}) {
        Enter(other);
        OverwriteUnordered();
      }
    }
  }
}

// Work of a third context waits for what this thread does after the free: waited for, it would never be done.
void FreedBesideWaiting(const Contexts& contexts) {
  enum Waiting { kWaiting, kReleased, kGaveUp };
  static std::atomic<Waiting> waiting = kWaiting;
  const CUcontext third = Made();
  for (const CUcontext own : {contexts.first, contexts.second}) {
    waiting = kWaiting;
    Enter(third);
    Use(Allocate(), nullptr);  // it is served, too
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    CUhostFn wait = [](void*) {
      for (int i = 0; i < 1000 && waiting == kWaiting; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      Waiting still = kWaiting;
      waiting.compare_exchange_strong(still, kGaveUp);
    };
    CHECK(cuLaunchHostFunc(nullptr, wait, nullptr) == CUDA_SUCCESS);
    Enter(own);
    for (int i = 0; i < 3; ++i) {
      const CUdeviceptr block = Allocate();
      Use(block, nullptr);
      CHECK(cuMemFree(block) == CUDA_SUCCESS);
      OverwriteUnordered();
    }
    Waiting still = kWaiting;
    CHECK(waiting.compare_exchange_strong(still, kReleased));
    Synchronise(third);
  }
}

// cuMemFree of a pool's memory, which is no context's, where the second still works on it and has not asked for
// anything itself.
void UsedElsewhere(const Contexts& contexts) {
  Enter(contexts.first);
  const CUdeviceptr block = Allocate(CUstream{});
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  Enter(contexts.second);
  Use(block, nullptr);
  Enter(contexts.first);
  CHECK(cuMemFree(block) == CUDA_SUCCESS);
  OverwriteUnordered();
  Synchronise(contexts.second);
}

}  // namespace context_order
