// Contexts that end with memory freed in the order of their streams.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "context_order.h"

namespace context_order {

// A context ends with memory freed in the order of its streams and events of the runtime's own; its handle comes back
// for the next one, whose streams are others.
void ContextsThatEnd(const Contexts& contexts) {
  Enter(contexts.first);
  Use(Allocate(CUstream{}), nullptr);
  for (int round = 0; round < 8; ++round) {
    const CUcontext passing = Made();
    Enter(passing);
    const CUstream streams[] = {nullptr, CU_STREAM_PER_THREAD, NewStream()};
    for (const CUstream stream : streams) {
      const CUdeviceptr block = Allocate(stream);
      Use(block, stream);
      CHECK(cuMemFreeAsync(block, stream) == CUDA_SUCCESS);
    }
    Enter(contexts.second);
    Overwrite(nullptr);
    Enter(contexts.first);
    Overwrite(nullptr);
    CHECK(simcudaCorruptions() == 0);
    CHECK(cuCtxDestroy(passing) == CUDA_SUCCESS);
    Overwrite(nullptr);
    Enter(contexts.second);
    Overwrite(nullptr);
  }
  CHECK(simcudaPhysicalBytes(0) <= std::size_t{256} << 20);
}

// The same, but work of the context cannot be waited for before it is destroyed, because it captures; and the driver's
// own wait is long: in the middle of it another thread writes over all that it can get.
void ContextThatEndsAtWork(const Contexts& contexts) {
  enum Step { kQueued, kDestroying, kOverwritten };
  static std::atomic<Step> step;
  static const auto until = [](Step wanted) {
    for (int i = 0; i < 200 && step < wanted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  };
  step = kQueued;
  Enter(contexts.first);
  Use(Allocate(CUstream{}), nullptr);
  Enter(contexts.second);
  Use(Allocate(CUstream{}), nullptr);
  const CUcontext passing = Made();
  Enter(passing);
  const CUstream stream = NewStream();
  const CUdeviceptr block = Allocate(stream), own = Allocate();
  constexpr std::uint64_t kTag = 1000;
  CHECK(simcudaWriteTag(stream, block, kBytes, kTag) == CUDA_SUCCESS && cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CUhostFn hold = [](void*) {
    step = kDestroying;
    until(kOverwritten);
  };
  CHECK(cuLaunchHostFunc(stream, hold, nullptr) == CUDA_SUCCESS);
  CHECK(simcudaReadTag(stream, block, kBytes, kTag) == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(block, stream) == CUDA_SUCCESS);
  CUstream capturing = nullptr;
  CHECK(cuStreamCreate(&capturing, CU_STREAM_DEFAULT) == CUDA_SUCCESS);
  CHECK(cuStreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);

  std::thread other([&contexts] {
    until(kDestroying);
    Enter(contexts.second);
    Overwrite(nullptr);
    step = kOverwritten;
  });
  CHECK(cuCtxDestroy(passing) == CUDA_SUCCESS);
  // The driver's own pool may hand out what is still in use, and have the new owner's stream wait for that: until the
  // host function gives up.
  const char* preloads = std::getenv("LD_PRELOAD");
  const bool served = preloads != nullptr && std::strstr(preloads, "libstalloc") != nullptr;
  CHECK(!served || step == kOverwritten);
  other.join();
  CUdeviceptr base = 0;
  std::size_t size = 0;
  Enter(contexts.first);
  CHECK(cuMemGetAddressRange(&base, &size, own) == CUDA_ERROR_NOT_FOUND);
}

}  // namespace context_order
