// The fidelity contract's order: memory must never be reused before the work that can still touch it. Each case lets a
// slow kernel read or write a block on one stream while the block is freed and as much memory as possible is allocated
// and overwritten elsewhere; a value that changed under the slow kernel is memory reused too early.
//
// Prints `row NAME ok` or `row NAME wrong:N` for each case and block size. Times play no part in the answers.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "contract_api.h"
#include "frameworks/programs/check.h"

namespace {

using Word = std::uint32_t;
constexpr Word kGood = 0x600D600D;
constexpr Word kBad = 0xBADBADBA;

__global__ void Fill(Word* words, std::size_t count, Word value) {
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::size_t>(gridDim.x) * blockDim.x) {
    words[i] = value;
  }
}

__global__ void Spin(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

__global__ void CountWrong(const Word* words, std::size_t count, Word value, unsigned long long* wrong) {
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::size_t>(gridDim.x) * blockDim.x) {
    if (words[i] != value) {
      atomicAdd(wrong, 1ULL);
    }
  }
}

// About 10 ms on current devices: far longer than the host needs for what follows a launch.
constexpr long long kSlow = 20'000'000;

struct Block {
  Word* words = nullptr;
  std::size_t count = 0;
};

Block AllocateAsync(std::size_t bytes, cudaStream_t stream) {
  void* memory = nullptr;
  CHECK_CUDA(cudaMallocAsync(&memory, bytes, stream));
  return {static_cast<Word*>(memory), bytes / sizeof(Word)};
}

Block Allocate(std::size_t bytes) {
  void* memory = nullptr;
  CHECK_CUDA(cudaMalloc(&memory, bytes));
  return {static_cast<Word*>(memory), bytes / sizeof(Word)};
}

void FillOn(const Block& block, Word value, cudaStream_t stream) {
  Fill<<<256, 256, 0, stream>>>(block.words, block.count, value);
}

// Slow work on `stream` that reads the block only at its end.
void CheckSlowly(const Block& block, Word value, unsigned long long* wrong, cudaStream_t stream) {
  Spin<<<1, 1, 0, stream>>>(kSlow);
  CountWrong<<<256, 256, 0, stream>>>(block.words, block.count, value, wrong);
}

struct World {
  cudaStream_t a = nullptr, b = nullptr;
  unsigned long long* wrong = nullptr;

  World() {
    CHECK_CUDA(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK_CUDA(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    void* memory = nullptr;
    CHECK_CUDA(cudaMallocHost(&memory, sizeof(*wrong)));  // pinned: not under test, and no copy that would synchronise
    wrong = static_cast<unsigned long long*>(memory);
    *wrong = 0;
  }
  ~World() {
    CHECK_CUDA(cudaStreamDestroy(a));
    CHECK_CUDA(cudaStreamDestroy(b));
    CHECK_CUDA(cudaFreeHost(wrong));
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Takes what memory the allocator is willing to reuse on `stream`, in several sizes, and overwrites it.
  void Overwrite(std::size_t bytes, cudaStream_t stream) const {
    std::vector<Block> blocks;
    for (int i = 0; i < 6; ++i) {
      blocks.push_back(AllocateAsync(i < 4 ? bytes : bytes / 2, stream));
      FillOn(blocks.back(), kBad, stream);
    }
    for (const Block& block : blocks) {
      CHECK_CUDA(cudaFreeAsync(block.words, stream));
    }
  }
};

// Freed on A while A still works on it; B allocates with no order to A.
void UnorderedStream(const World& world, std::size_t bytes) {
  const Block block = AllocateAsync(bytes, world.a);
  FillOn(block, kGood, world.a);
  CheckSlowly(block, kGood, world.wrong, world.a);
  CHECK_CUDA(cudaFreeAsync(block.words, world.a));
  world.Overwrite(bytes, world.b);
}

// The same stream: reuse at once is right, and must follow the slow kernel.
void SameStream(const World& world, std::size_t bytes) {
  const Block block = AllocateAsync(bytes, world.a);
  FillOn(block, kGood, world.a);
  CheckSlowly(block, kGood, world.wrong, world.a);
  CHECK_CUDA(cudaFreeAsync(block.words, world.a));
  world.Overwrite(bytes, world.a);
}

// B has waited for A's work, by an event, and frees; A goes on to other slow work and then allocates. Reuse on A has to
// follow B's use, which A has not waited for.
void FreedOnAnother(const World& world, std::size_t bytes) {
  cudaEvent_t event = nullptr;
  CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  const Block block = AllocateAsync(bytes, world.a);
  FillOn(block, kGood, world.a);
  CHECK_CUDA(cudaEventRecord(event, world.a));
  CHECK_CUDA(cudaStreamWaitEvent(world.b, event));
  CheckSlowly(block, kGood, world.wrong, world.b);
  CHECK_CUDA(cudaFreeAsync(block.words, world.b));
  world.Overwrite(bytes, world.a);
  CHECK_CUDA(cudaEventDestroy(event));
}

// cudaFree waits for all that was queued before it, on every stream; whoever allocates next may write at once.
void SynchronousFree(const World& world, std::size_t bytes) {
  const Block block = Allocate(bytes);
  FillOn(block, kGood, world.a);
  CheckSlowly(block, kGood, world.wrong, world.a);
  CHECK_CUDA(cudaFree(block.words));
  const Block next = Allocate(bytes);
  FillOn(next, kBad, world.b);
  world.Overwrite(bytes, world.b);
  CHECK_CUDA(cudaFree(next.words));
}

// A stream-ordered block that is freed synchronously while two streams read it.
void SynchronousFreeOfAsync(const World& world, std::size_t bytes) {
  const Block block = AllocateAsync(bytes, world.a);
  FillOn(block, kGood, world.a);
  CHECK_CUDA(cudaStreamSynchronize(world.a));
  CheckSlowly(block, kGood, world.wrong, world.a);
  CheckSlowly(block, kGood, world.wrong, world.b);
  CHECK_CUDA(cudaFree(block.words));
  const Block next = Allocate(bytes);
  FillOn(next, kBad, nullptr);
  world.Overwrite(bytes, nullptr);
  CHECK_CUDA(cudaFree(next.words));
}

// A cudaMalloc block freed in stream order on A, its last user.
void AsyncFreeOfMalloc(const World& world, std::size_t bytes) {
  const Block block = Allocate(bytes);
  FillOn(block, kGood, world.a);
  CheckSlowly(block, kGood, world.wrong, world.a);
  CHECK_CUDA(cudaFreeAsync(block.words, world.a));
  world.Overwrite(bytes, world.b);
}

// The stream is destroyed with the work still pending.
void DestroyedStream(const World& world, std::size_t bytes) {
  cudaStream_t gone = nullptr;
  CHECK_CUDA(cudaStreamCreateWithFlags(&gone, cudaStreamNonBlocking));
  const Block block = AllocateAsync(bytes, gone);
  FillOn(block, kGood, gone);
  CheckSlowly(block, kGood, world.wrong, gone);
  CHECK_CUDA(cudaFreeAsync(block.words, gone));
  CHECK_CUDA(cudaStreamDestroy(gone));
  cudaStream_t fresh = nullptr;  // may get the same handle: the past must not be taken for its own
  CHECK_CUDA(cudaStreamCreateWithFlags(&fresh, cudaStreamNonBlocking));
  world.Overwrite(bytes, fresh);
  world.Overwrite(bytes, world.b);
  CHECK_CUDA(cudaStreamDestroy(fresh));
}

// The free happens on another host thread, in the order of A.
void FreedByThread(const World& world, std::size_t bytes) {
  const Block block = AllocateAsync(bytes, world.a);
  FillOn(block, kGood, world.a);
  CheckSlowly(block, kGood, world.wrong, world.a);
  std::thread([&] { CHECK_CUDA(cudaFreeAsync(block.words, world.a)); }).join();
  world.Overwrite(bytes, world.b);
}

// The legacy stream waits for blocking streams and they for it; the per-thread one is another.
void LegacyAndPerThread(const World& world, std::size_t bytes) {
  const Block block = AllocateAsync(bytes, cudaStreamPerThread);
  FillOn(block, kGood, cudaStreamPerThread);
  CheckSlowly(block, kGood, world.wrong, cudaStreamPerThread);
  CHECK_CUDA(cudaFreeAsync(block.words, cudaStreamPerThread));
  world.Overwrite(bytes, cudaStreamLegacy);
  std::thread([&] {
    world.Overwrite(bytes, cudaStreamPerThread);
    CHECK_CUDA(cudaStreamSynchronize(cudaStreamPerThread));
  }).join();
}

// A chain: A's free is known to B by an event recorded after it; B may reuse, C (which waited for neither) may not.
void EventChain(const World& world, std::size_t bytes) {
  cudaStream_t c = nullptr;
  cudaEvent_t event = nullptr;
  CHECK_CUDA(cudaStreamCreateWithFlags(&c, cudaStreamNonBlocking));
  CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  const Block block = AllocateAsync(bytes, world.a);
  FillOn(block, kGood, world.a);
  CheckSlowly(block, kGood, world.wrong, world.a);
  CHECK_CUDA(cudaFreeAsync(block.words, world.a));
  CHECK_CUDA(cudaEventRecord(event, world.a));
  CHECK_CUDA(cudaStreamWaitEvent(world.b, event));
  const Block next = AllocateAsync(bytes, world.b);
  FillOn(next, kGood, world.b);
  CheckSlowly(next, kGood, world.wrong, world.b);
  CHECK_CUDA(cudaFreeAsync(next.words, world.b));
  world.Overwrite(bytes, c);
  world.Overwrite(bytes, world.a);
  CHECK_CUDA(cudaEventDestroy(event));
  CHECK_CUDA(cudaStreamDestroy(c));
}

// An event recorded *before* the free says nothing about it.
void StaleEvent(const World& world, std::size_t bytes) {
  cudaEvent_t event = nullptr;
  CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  const Block block = AllocateAsync(bytes, world.a);
  FillOn(block, kGood, world.a);
  CHECK_CUDA(cudaEventRecord(event, world.a));
  CheckSlowly(block, kGood, world.wrong, world.a);
  CHECK_CUDA(cudaFreeAsync(block.words, world.a));
  CHECK_CUDA(cudaStreamWaitEvent(world.b, event));
  world.Overwrite(bytes, world.b);
  CHECK_CUDA(cudaEventDestroy(event));
}

// Another context beside the runtime library's own, current while this lives. Its default streams are not the
// library's.
class InAnotherContext {
 public:
  InAnotherContext() { CHECK_CUDA(static_cast<cudaError_t>(DRIVER(cuCtxPushCurrent)(Context()))); }
  ~InAnotherContext() {
    CUcontext popped = nullptr;
    CHECK_CUDA(static_cast<cudaError_t>(DRIVER(cuCtxPopCurrent)(&popped)));
  }
  InAnotherContext(const InAnotherContext&) = delete;
  InAnotherContext& operator=(const InAnotherContext&) = delete;

 private:
  static CUcontext Context() {
    static const CUcontext context = [] {
      using Create = CUresult(CUcontext*, unsigned int, CUdevice);
      CUcontext made = nullptr, popped = nullptr;
      CHECK_CUDA(static_cast<cudaError_t>(Driver<Create>("cuCtxCreate_v2")(&made, 0u, 0)));
      CHECK_CUDA(static_cast<cudaError_t>(DRIVER(cuCtxPopCurrent)(&popped)));
      return made;
    }();
    return context;
  }
};

// Freed in the order of one context's default stream; the other's, of the same name, knows nothing of it.
void OverTheContexts(const World& world, std::size_t bytes, cudaStream_t stream) {
  const auto use = [&] {
    const Block block = AllocateAsync(bytes, stream);
    FillOn(block, kGood, stream);
    CheckSlowly(block, kGood, world.wrong, stream);
    CHECK_CUDA(cudaFreeAsync(block.words, stream));
  };
  use();
  {
    const InAnotherContext other;
    world.Overwrite(bytes, stream);
    CHECK_CUDA(cudaDeviceSynchronize());
    use();
  }
  world.Overwrite(bytes, stream);
  const InAnotherContext other;
  CHECK_CUDA(cudaDeviceSynchronize());
}

void LegacyOfTwoContexts(const World& world, std::size_t bytes) { OverTheContexts(world, bytes, nullptr); }
void PerThreadOfTwoContexts(const World& world, std::size_t bytes) {
  OverTheContexts(world, bytes, cudaStreamPerThread);
}

// The default stream of a thread that has ended is not the next one's.
void ThreadsThatEnd(const World& world, std::size_t bytes) {
  std::thread([&] {
    const Block block = AllocateAsync(bytes, cudaStreamPerThread);
    FillOn(block, kGood, cudaStreamPerThread);
    CheckSlowly(block, kGood, world.wrong, cudaStreamPerThread);
    CHECK_CUDA(cudaFreeAsync(block.words, cudaStreamPerThread));
  }).join();
  std::thread([&] {
    world.Overwrite(bytes, cudaStreamPerThread);
    CHECK_CUDA(cudaStreamSynchronize(cudaStreamPerThread));
  }).join();
}

}  // namespace

int main() {
  struct Case {
    const char* name;
    void (*run)(const World&, std::size_t);
  };
  const Case cases[] = {{"unordered_stream", UnorderedStream},
                        {"same_stream", SameStream},
                        {"freed_on_another", FreedOnAnother},
                        {"synchronous_free", SynchronousFree},
                        {"synchronous_free_of_async", SynchronousFreeOfAsync},
                        {"async_free_of_malloc", AsyncFreeOfMalloc},
                        {"destroyed_stream", DestroyedStream},
                        {"freed_by_thread", FreedByThread},
                        {"legacy_and_per_thread", LegacyAndPerThread},
                        {"event_chain", EventChain},
                        {"stale_event", StaleEvent},
                        {"legacy_of_two_contexts", LegacyOfTwoContexts},
                        {"per_thread_of_two_contexts", PerThreadOfTwoContexts},
                        {"threads_that_end", ThreadsThatEnd}};
  if (const cudaError_t status = cudaFree(nullptr); status != cudaSuccess) {
    std::fprintf(stderr, "no device: %s\n", cudaGetErrorString(status));
    return 77;
  }
  int failed = 0;
  for (const Case& one : cases) {
    for (const std::size_t bytes :
         {std::size_t{4} << 10, std::size_t{1} << 20, std::size_t{6} << 20, std::size_t{96} << 20}) {
      unsigned long long wrong = 0;
      for (int round = 0; round < 3; ++round) {
        const World world;
        one.run(world, bytes);
        CHECK_CUDA(cudaDeviceSynchronize());
        wrong += *world.wrong;
      }
      CHECK_CUDA(cudaGetLastError());
      const std::string answer = wrong == 0 ? "ok" : "wrong:" + std::to_string(wrong);
      std::printf("row order_%s_%zuK %s\n", one.name, bytes >> 10, answer.c_str());
      std::fflush(stdout);
      failed += wrong != 0;
    }
  }
  return failed == 0 ? 0 : 1;
}
