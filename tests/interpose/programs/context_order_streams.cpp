// Memory that was freed on a stream of one context and is wanted on one of another.
#include "context_order.h"

namespace context_order {

namespace {

// Work of `contexts.second` that is pending behind blocks that were freed in its order, while `first` allocates; and
// the other way about.
void ByTurns(const Contexts& contexts, CUstream stream) {
  Enter(contexts.first);
  Use(Allocate(stream), stream);  // the device is served in this one
  for (int round = 0; round < 4; ++round) {
    const bool odd = round % 2 != 0;
    Enter(odd ? contexts.first : contexts.second);
    const CUdeviceptr block = Allocate(stream);
    Use(block, stream);
    CHECK(cuMemFreeAsync(block, stream) == CUDA_SUCCESS);
    Enter(odd ? contexts.second : contexts.first);
    Overwrite(stream);
    Synchronise(contexts.first);
    Synchronise(contexts.second);
  }
}

}  // namespace

void DefaultStreams(const Contexts& contexts) { ByTurns(contexts, nullptr); }
void LegacyStreams(const Contexts& contexts) { ByTurns(contexts, CU_STREAM_LEGACY); }
void PerThreadStreams(const Contexts& contexts) { ByTurns(contexts, CU_STREAM_PER_THREAD); }

// What is freed in the second context was allocated in the first: the second has asked for nothing.
void FreedElsewhere(const Contexts& contexts) {
  Enter(contexts.first);
  const CUdeviceptr block = Allocate(CUstream{});
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  Enter(contexts.second);
  Use(block, nullptr);
  CHECK(cuMemFreeAsync(block, nullptr) == CUDA_SUCCESS);
  Enter(contexts.first);
  Overwrite(nullptr);
  Synchronise(contexts.second);
}

// A stream names its context itself, whichever is current.
void MadeStreams(const Contexts& contexts) {
  Enter(contexts.first);
  const CUstream here = NewStream();
  Use(Allocate(here), here);
  Enter(contexts.second);
  const CUstream there = NewStream();
  Enter(contexts.first);
  for (int round = 0; round < 4; ++round) {
    const CUdeviceptr block = Allocate(there);
    Use(block, there);
    CHECK(cuMemFreeAsync(block, there) == CUDA_SUCCESS);
    Overwrite(here);
    Synchronise(contexts.second);
    Enter(contexts.first);
  }
  // Destroyed from the other context, with work pending.
  const CUdeviceptr block = Allocate(there);
  Use(block, there);
  CHECK(cuMemFreeAsync(block, there) == CUDA_SUCCESS && cuStreamDestroy(there) == CUDA_SUCCESS);
  Overwrite(here);
  Synchronise(contexts.second);
}

}  // namespace context_order
