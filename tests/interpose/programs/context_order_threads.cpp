// The default streams of threads, which nobody else can name.
#include <initializer_list>
#include <thread>
#include <vector>

#include "context_order.h"

namespace context_order {

// The default stream of a thread ends with it, its work does not; and the next thread may be at the same address.
void ThreadsThatEnd(const Contexts& contexts) {
  Enter(contexts.first);
  Use(Allocate(CU_STREAM_PER_THREAD), CU_STREAM_PER_THREAD);
  for (const CUcontext context : {contexts.first, contexts.second}) {
    for (int i = 0; i < 3; ++i) {
      std::thread([&] {
        Enter(context);
        const CUdeviceptr block = Allocate(CU_STREAM_PER_THREAD);
        Use(block, CU_STREAM_PER_THREAD);
        CHECK(cuMemFreeAsync(block, CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
      }).join();
      std::thread([&] {
        Enter(context);
        std::vector<CUdeviceptr> blocks;
        for (int k = 0; k < 4; ++k) Use(blocks.emplace_back(Allocate(CU_STREAM_PER_THREAD)), CU_STREAM_PER_THREAD);
        CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
        for (const CUdeviceptr block : blocks) CHECK(cuMemFreeAsync(block, CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
      }).join();
    }
  }
  Synchronise(contexts.first);
  Synchronise(contexts.second);
}

// The only stream that has been seen is another thread's own: whether that is idle, nobody else can ask.
void TrimmedByAnotherThread(const Contexts& contexts) {
  Enter(contexts.first);
  const CUdeviceptr block = Allocate(CU_STREAM_PER_THREAD);
  Use(block, CU_STREAM_PER_THREAD);
  CHECK(cuMemFreeAsync(block, CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
  std::thread([&] {
    Enter(contexts.first);
    CUmemoryPool pool = nullptr;
    CHECK(cuDeviceGetDefaultMemPool(&pool, 0) == CUDA_SUCCESS && cuMemPoolTrimTo(pool, 0) == CUDA_SUCCESS);
  }).join();
  Synchronise(contexts.first);  // an illegal address if it was unmapped
}

}  // namespace context_order
