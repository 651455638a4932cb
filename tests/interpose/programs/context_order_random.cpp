// Anything in any order.
#include <cstdlib>
#include <random>
#include <vector>

#include "context_order.h"

namespace context_order {

// Anything in any order. The program orders what it frees behind every use; beyond that it relies on CUDA.
void Random(const Contexts& contexts) {
  struct Block {
    CUdeviceptr address;
    CUcontext context;
    CUstream stream;
  };
  const char* seed = std::getenv("SIMCUDA_SEED");
  std::mt19937 random(seed == nullptr ? 1 : static_cast<unsigned>(std::atoi(seed)));
  const auto pick = [&](std::size_t n) { return random() % n; };
  std::vector<CUcontext> entered = {contexts.first, contexts.second};
  std::vector<std::vector<CUstream>> streams;
  for (const CUcontext context : entered) {
    Enter(context);
    streams.push_back({nullptr, CU_STREAM_PER_THREAD, NewStream()});
  }
  std::vector<Block> blocks;
  CUmemoryPool pool = nullptr;
  CHECK(cuDeviceGetDefaultMemPool(&pool, 0) == CUDA_SUCCESS);
  for (int step = 0; step < 600; ++step) {
    const std::size_t c = pick(entered.size());
    Enter(entered[c]);
    CUstream& stream = streams[c][pick(streams[c].size())];
    if (blocks.size() < 4 || (blocks.size() < 16 && pick(2) == 0)) {
      const bool ordered = pick(8) != 0;
      blocks.push_back({ordered ? Allocate(stream) : Allocate(), entered[c], stream});
      Use(blocks.back().address, stream);
    } else if (pick(40) == 0) {
      CHECK(cuMemPoolTrimTo(pool, pick(4) * kBytes) == CUDA_SUCCESS);
    } else {
      const std::size_t b = pick(blocks.size());
      const Block block = blocks[b];
      blocks[b] = blocks.back();
      blocks.pop_back();
      if (pick(12) == 0) {
        CHECK(cuMemFree(block.address) == CUDA_SUCCESS);
      } else if (pick(3) == 0) {
        // On another stream, perhaps the other context's, behind an event of the first.
        CUevent event = nullptr;
        Enter(block.context);
        CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
        CHECK(cuEventRecord(event, block.stream) == CUDA_SUCCESS);
        Enter(entered[c]);
        CHECK(cuStreamWaitEvent(stream, event, 0) == CUDA_SUCCESS &&
              cuMemFreeAsync(block.address, stream) == CUDA_SUCCESS);
        CHECK(cuEventDestroy(event) == CUDA_SUCCESS);
      } else {
        Enter(block.context);
        CHECK(cuMemFreeAsync(block.address, block.stream) == CUDA_SUCCESS);
      }
    }
    if (pick(50) == 0) Synchronise(entered[pick(entered.size())]);
  }
  for (const CUcontext context : entered) Synchronise(context);
}

}  // namespace context_order
