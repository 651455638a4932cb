// Memory that one context has freed and still works on while somebody wants what is idle: by a trim, because there is
// no more, or behind a capture.
#include <initializer_list>

#include "context_order.h"

namespace context_order {

// Memory that the second context has freed in its order and still works on is neither given back nor taken, though the
// first is idle and somebody wants room.
void Trimmed(const Contexts& contexts) {
  for (const CUstream stream : {CUstream{}, CU_STREAM_PER_THREAD}) {
    Enter(contexts.first);
    CUdeviceptr block = Allocate(stream);
    CHECK(cuMemFreeAsync(block, stream) == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS);
    Enter(contexts.second);
    block = Allocate(stream);
    Use(block, stream);
    CHECK(cuMemFreeAsync(block, stream) == CUDA_SUCCESS);
    Enter(contexts.first);
    CUmemoryPool pool = nullptr;
    CHECK(cuDeviceGetDefaultMemPool(&pool, 0) == CUDA_SUCCESS && cuMemPoolTrimTo(pool, 0) == CUDA_SUCCESS);
    Overwrite(stream);
    Synchronise(contexts.second);  // an illegal address if it was unmapped
  }
}

// More is asked for than there is: the runtime waits for everything, of which the current context is a part.
void ShortOfMemory(const Contexts& contexts) {
  Enter(contexts.first);
  CHECK(cuMemFree(Allocate()) == CUDA_SUCCESS);
  Enter(contexts.second);
  const CUdeviceptr block = Allocate(CUstream{});
  Use(block, nullptr);
  CHECK(cuMemFreeAsync(block, nullptr) == CUDA_SUCCESS);
  Enter(contexts.first);
  CUdeviceptr huge = 0;
  CHECK(cuMemAllocAsync(&huge, std::size_t{200} << 30, nullptr) == CUDA_ERROR_OUT_OF_MEMORY);
  Overwrite(nullptr);
  OverwriteUnordered();
  Synchronise(contexts.second);
}

// A free while a stream captures is put aside: what may still use the memory is waited for in every context.
void FreedBesideCapture(const Contexts& contexts) {
  Enter(contexts.first);
  CHECK(cuMemFree(Allocate()) == CUDA_SUCCESS);
  const CUstream capturing = NewStream();
  Enter(contexts.second);
  const CUstream stream = NewStream();
  const CUdeviceptr block = Allocate(stream);
  Use(block, stream);
  CUgraph graph = nullptr;
  CHECK(cuStreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(block, stream) == CUDA_SUCCESS);
  CHECK(cuStreamEndCapture(capturing, &graph) == CUDA_SUCCESS);
  Enter(contexts.first);
  OverwriteUnordered();
  Synchronise(contexts.second);
}

}  // namespace context_order
