// Several contexts of one device, each with streams of its own: stream 0 of one is not stream 0 of another, and neither
// waits for the other. Memory that one has freed and still works on must not be handed to another before that work.
//
// Each case leaves a read of a block pending in one context, frees the block, and overwrites as much memory as it can
// get in the other. The simulated device sees a read that finds what another wrote. Under SIMCUDA_SEED=0 nothing runs
// before something waits for it: the overwriting context is waited for first.
#include <cuda.h>
#include <simcuda/extensions.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr std::size_t kBytes = 6 << 20;
enum class Kind { kPrimaryAndMade, kMadeAndPrimary, kBothMade, kGreen };

// The device is first asked for memory in `first`.
struct Contexts {
  CUcontext first = nullptr, second = nullptr;
};

CUcontext Primary() {
  CUcontext context = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  return context;
}

CUcontext Made() {
  CUcontext context = nullptr, popped = nullptr;
  CHECK(cuCtxCreate(&context, nullptr, 0, 0) == CUDA_SUCCESS);
  CHECK(cuCtxPopCurrent(&popped) == CUDA_SUCCESS && popped == context);
  return context;
}

CUcontext Green() {
  CUgreenCtx green = nullptr;
  CUcontext context = nullptr;
  CHECK(cuGreenCtxCreate(&green, nullptr, 0, CU_GREEN_CTX_DEFAULT_STREAM) == CUDA_SUCCESS);
  CHECK(cuCtxFromGreenCtx(&context, green) == CUDA_SUCCESS);
  return context;
}

Contexts Make(Kind kind) {
  switch (kind) {
    case Kind::kPrimaryAndMade:
      return {Primary(), Made()};
    case Kind::kMadeAndPrimary:
      return {Made(), Primary()};
    case Kind::kBothMade:
      return {Made(), Made()};
    case Kind::kGreen:
      return {Green(), Green()};
  }
  return {};
}

void Enter(CUcontext context) { CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS); }

void Synchronise(CUcontext context) {
  Enter(context);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
}

CUstream NewStream() {
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  return stream;
}

std::uint64_t next_tag = 1;

// What was written is still to be read.
void Use(CUdeviceptr block, CUstream stream) {
  const std::uint64_t tag = next_tag++;
  CHECK(simcudaWriteTag(stream, block, kBytes, tag) == CUDA_SUCCESS && cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(simcudaReadTag(stream, block, kBytes, tag) == CUDA_SUCCESS);
}

CUdeviceptr Allocate(CUstream stream) {
  CUdeviceptr block = 0;
  CHECK(cuMemAllocAsync(&block, kBytes, stream) == CUDA_SUCCESS);
  return block;
}

CUdeviceptr Allocate() {
  CUdeviceptr block = 0;
  CHECK(cuMemAlloc(&block, kBytes) == CUDA_SUCCESS);
  return block;
}

// Writes over whatever is to be had in the current context, and lets that be the first to execute.
void Overwrite(CUstream stream) {
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 4; ++i) Use(blocks.emplace_back(Allocate(stream)), stream);
  for (const CUdeviceptr block : blocks) CHECK(cuMemFreeAsync(block, stream) == CUDA_SUCCESS);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
}

// Without an order: the memory is anybody's at once.
void OverwriteUnordered() {
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 4; ++i) Use(blocks.emplace_back(Allocate()), nullptr);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  for (const CUdeviceptr block : blocks) CHECK(cuMemFree(block) == CUDA_SUCCESS);
}

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

struct Case {
  const char* name;
  void (*run)(const Contexts& contexts);
};
constexpr Case kCases[] = {{"default", DefaultStreams},
                           {"legacy", LegacyStreams},
                           {"per_thread", PerThreadStreams},
                           {"freed_elsewhere", FreedElsewhere},
                           {"made", MadeStreams},
                           {"no_stream", FreedWithoutStream},
                           {"beside_waiting", FreedBesideWaiting},
                           {"used_elsewhere", UsedElsewhere},
                           {"trim", Trimmed},
                           {"short", ShortOfMemory},
                           {"capture", FreedBesideCapture},
                           {"threads", ThreadsThatEnd},
                           {"other_thread", TrimmedByAnotherThread},
                           {"end", ContextsThatEnd},
                           {"random", Random}};

struct Named {
  const char* name;
  Kind kind;
};
constexpr Named kKinds[] = {{"primary_made", Kind::kPrimaryAndMade},
                            {"made_primary", Kind::kMadeAndPrimary},
                            {"both_made", Kind::kBothMade},
                            {"green", Kind::kGreen}};

}  // namespace

// context_order KIND CASE
int main(int count, char** arguments) {
  CHECK(count == 3 && cuInit(0) == CUDA_SUCCESS);
  for (const Named& kind : kKinds) {
    if (std::strcmp(kind.name, arguments[1]) != 0) continue;
    for (const Case& one : kCases) {
      if (std::strcmp(one.name, arguments[2]) != 0) continue;
      one.run(Make(kind.kind));
      char text[320];
      simcudaFirstCorruption(text, sizeof text);
      if (simcudaCorruptions() != 0) std::fprintf(stderr, "%s\n", text);
      CHECK(simcudaCorruptions() == 0);
      return 0;
    }
  }
  CHECK(!"no such case");
}
