// Contexts that end: what was allocated in them ends with them, their addresses are unknown from then on, those of
// another context on the same device and of the device's pool are untouched, and the next context is served. Frees
// without a context.
#include <cuda.h>
#include <simcuda/extensions.h>

#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <thread>

#include "check.h"

namespace {

constexpr std::size_t kBytes = 6 << 20;

CUdeviceptr Allocate(bool async = false) {
  CUdeviceptr block = 0;
  CHECK((async ? cuMemAllocAsync(&block, kBytes, nullptr) : cuMemAlloc(&block, kBytes)) == CUDA_SUCCESS);
  return block;
}

CUcontext MakeContext() {
  CUcontext context = nullptr;
  CHECK(cuCtxCreate(&context, nullptr, 0, 0) == CUDA_SUCCESS);
  return context;
}

bool Usable(CUdeviceptr block) {
  return simcudaWriteTag(nullptr, block, kBytes, 5) == CUDA_SUCCESS &&
         simcudaReadTag(nullptr, block, kBytes, 5) == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS;
}

// The primary context has come and gone before anything is asked for, by a release or a reset: nobody enters it to wait
// in it.
void PrimaryThatEndsFirst(bool reset) {
  CUcontext primary = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&primary, 0) == CUDA_SUCCESS);
  CHECK((reset ? cuDevicePrimaryCtxReset(0) : cuDevicePrimaryCtxRelease(0)) == CUDA_SUCCESS);
  const CUcontext context = MakeContext();
  const CUdeviceptr pooled = Allocate(true);
  CHECK(Usable(pooled));
  const std::uint64_t entered = simcudaCallCount("cuCtxPushCurrent");
  CHECK(cuMemFree(pooled) == CUDA_SUCCESS && simcudaCallCount("cuCtxPushCurrent") == entered);
  CHECK(cuCtxDestroy(context) == CUDA_SUCCESS);
}

// The thread's current context was destroyed by another: nothing can be had, and that is no judgement on the device.
void CurrentContextDestroyed() {
  CUcontext context = MakeContext();
  std::thread([&] { CHECK(cuCtxDestroy(context) == CUDA_SUCCESS); }).join();
  CUdeviceptr block = 0;
  CHECK(cuMemAlloc(&block, kBytes) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(cuMemAllocAsync(&block, kBytes, nullptr) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CUcontext popped = nullptr;
  CHECK(cuCtxPopCurrent(&popped) == CUDA_SUCCESS);
}

// The driver refuses to destroy a primary context as it does others, and nothing in it ends: where it is the only one,
// and beside another.
void PrimaryIsNotDestroyed() {
  CUcontext primary = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&primary, 0) == CUDA_SUCCESS);
  for (const bool beside : {false, true}) {
    CUcontext made = beside ? MakeContext() : nullptr;
    CHECK(cuCtxSetCurrent(primary) == CUDA_SUCCESS);
    const CUdeviceptr block = Allocate(), pooled = Allocate(true);
    CHECK(cuCtxDestroy(primary) != CUDA_SUCCESS);
    const CUdeviceptr next = Allocate();
    CHECK(next != block && Usable(block) && Usable(pooled) && Usable(next));
    CHECK(cuMemFree(block) == CUDA_SUCCESS && cuMemFree(pooled) == CUDA_SUCCESS && cuMemFree(next) == CUDA_SUCCESS);
    CHECK(cuCtxSetCurrent(nullptr) == CUDA_SUCCESS);
    if (beside) CHECK(cuCtxDestroy(made) == CUDA_SUCCESS);
  }
  CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
}

// The driver refuses to end a context: all that is in it is as it was, and it ends when the driver does not refuse.
void RefusedEnds() {
  const auto is_as_it_was = [](const std::initializer_list<CUdeviceptr> blocks) {
    for (const CUdeviceptr block : blocks) {
      CUdeviceptr base = 0;
      std::size_t size = 0;
      CHECK(cuMemGetAddressRange(&base, &size, block) == CUDA_SUCCESS && base == block && size == kBytes);
      CHECK(Usable(block));
    }
    const CUdeviceptr next = Allocate();
    CHECK(Usable(next) && cuMemFree(next) == CUDA_SUCCESS);
    for (const CUdeviceptr block : blocks) CHECK(cuMemFree(block) == CUDA_SUCCESS);
  };
  for (const bool beside : {false, true}) {
    CUcontext other = beside ? MakeContext() : nullptr;
    if (beside) CHECK(Usable(Allocate()));
    CUcontext made = MakeContext();
    const CUdeviceptr block = Allocate(), pooled = Allocate(true);
    CHECK(simcudaFailNext("cuCtxDestroy", 1, CUDA_ERROR_UNKNOWN) == 1);
    CHECK(cuCtxDestroy(made) == CUDA_ERROR_UNKNOWN);
    is_as_it_was({block, pooled});
    const CUdeviceptr left = Allocate();
    CHECK(cuCtxDestroy(made) == CUDA_SUCCESS);
    if (beside) CHECK(cuMemFree(left) == CUDA_ERROR_INVALID_VALUE && cuCtxDestroy(other) == CUDA_SUCCESS);
  }
  CUcontext primary = nullptr, in_green = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&primary, 0) == CUDA_SUCCESS && cuCtxSetCurrent(primary) == CUDA_SUCCESS);
  const CUdeviceptr block = Allocate(), pooled = Allocate(true);
  CHECK(simcudaFailNext("cuDevicePrimaryCtxReset", 1, CUDA_ERROR_UNKNOWN) == 1);
  CHECK(cuDevicePrimaryCtxReset(0) == CUDA_ERROR_UNKNOWN);
  is_as_it_was({block, pooled});

  CUgreenCtx green = nullptr;
  CHECK(cuGreenCtxCreate(&green, nullptr, 0, CU_GREEN_CTX_DEFAULT_STREAM) == CUDA_SUCCESS);
  CHECK(cuCtxFromGreenCtx(&in_green, green) == CUDA_SUCCESS && cuCtxSetCurrent(in_green) == CUDA_SUCCESS);
  const CUdeviceptr of_green = Allocate(), freed = Allocate(true);
  CHECK(simcudaFailNext("cuGreenCtxDestroy", 1, CUDA_ERROR_UNKNOWN) == 1);
  CHECK(cuGreenCtxDestroy(green) == CUDA_ERROR_UNKNOWN);
  CHECK(simcudaWriteTag(nullptr, freed, kBytes, 3) == CUDA_SUCCESS);
  CHECK(simcudaReadTag(nullptr, freed, kBytes, 3) == CUDA_SUCCESS && cuMemFreeAsync(freed, nullptr) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(primary) == CUDA_SUCCESS);
  for (int i = 0; i < 4; ++i) CHECK(simcudaWriteTag(nullptr, Allocate(), kBytes, 4) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(in_green) == CUDA_SUCCESS);
  is_as_it_was({of_green});
  CHECK(cuGreenCtxDestroy(green) == CUDA_SUCCESS && cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(nullptr) == CUDA_SUCCESS);
}

// The last to hold a primary context may be a green one in which nothing was asked for.
void UnusedGreenContext() {
  CUcontext primary = nullptr;
  CUgreenCtx green = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&primary, 0) == CUDA_SUCCESS && cuCtxSetCurrent(primary) == CUDA_SUCCESS);
  const CUdeviceptr block = Allocate();
  CHECK(cuGreenCtxCreate(&green, nullptr, 0, CU_GREEN_CTX_DEFAULT_STREAM) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS && Usable(block));
  CHECK(cuCtxSetCurrent(nullptr) == CUDA_SUCCESS && cuGreenCtxDestroy(green) == CUDA_SUCCESS);
  CHECK(cuMemFree(block) == CUDA_ERROR_INVALID_VALUE);
  CHECK(simcudaPhysicalBytes(0) <= std::size_t{32} << 20);
}

void Reset() {
  CUcontext context = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS && cuCtxSetCurrent(context) == CUDA_SUCCESS);
  const CUdeviceptr block = Allocate(), pooled = Allocate(true);
  CHECK(Usable(block) && Usable(pooled));
  CHECK(cuMemFreeAsync(pooled, nullptr) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxReset(0) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS && cuCtxSetCurrent(context) == CUDA_SUCCESS);
  CHECK(simcudaPhysicalBytes(0) <= std::size_t{32} << 20);  // a chunk of the default pool, as CUDA keeps it
  CUdeviceptr base = 0;
  std::size_t size = 0;
  CHECK(cuMemGetAddressRange(&base, &size, block) == CUDA_ERROR_NOT_FOUND);
  CHECK(cuMemFree(block) == CUDA_ERROR_INVALID_VALUE);
  const CUdeviceptr again = Allocate();
  CHECK(Usable(again) && cuMemFree(again) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(nullptr) == CUDA_SUCCESS);
}

void TwoContextsOfOneDevice() {
  CUcontext first = MakeContext(), popped = nullptr;
  CHECK(Usable(Allocate()));
  CUcontext second = MakeContext();
  const CUdeviceptr block = Allocate();
  CHECK(Usable(block));
  CHECK(cuCtxDestroy(first) == CUDA_SUCCESS);
  CHECK(Usable(block));
  const CUdeviceptr more = Allocate();
  CHECK(Usable(more) && cuMemFree(more) == CUDA_SUCCESS && cuMemFree(block) == CUDA_SUCCESS);
  CHECK(cuCtxDestroy(second) == CUDA_SUCCESS);
  CHECK(cuCtxGetCurrent(&popped) == CUDA_SUCCESS && popped != second);
  if (popped != nullptr) CHECK(cuCtxPopCurrent(&popped) == CUDA_SUCCESS);
}

// What was allocated in a context, not what was taken from the device's pool in it, ends with it, after its work.
void MemoryEndsWithItsContext() {
  CUcontext first = MakeContext();
  const CUdeviceptr of_first = Allocate();
  CUcontext second = MakeContext();
  const CUdeviceptr kept = Allocate(), freed = Allocate(), pooled = Allocate(true);
  CHECK(cuMemFree(of_first) == CUDA_SUCCESS && cuMemFree(freed) == CUDA_SUCCESS);
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  CHECK(simcudaWriteTag(stream, kept, kBytes, 1) == CUDA_SUCCESS);
  CHECK(simcudaReadTag(stream, kept, kBytes, 1) == CUDA_SUCCESS);
  CUcontext popped = nullptr;
  CHECK(cuCtxPopCurrent(&popped) == CUDA_SUCCESS && popped == second);
  CHECK(cuCtxDestroy(second) == CUDA_SUCCESS);
  CUdeviceptr base = 0;
  std::size_t size = 0;
  CHECK(cuMemGetAddressRange(&base, &size, kept) == CUDA_ERROR_NOT_FOUND);
  CHECK(cuMemFree(kept) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemGetAddressRange(&base, &size, pooled) == CUDA_SUCCESS && base == pooled && size == kBytes);
  const CUdeviceptr next = Allocate();
  CHECK(Usable(next) && Usable(pooled));
  CHECK(cuMemFree(next) == CUDA_SUCCESS && cuMemFree(pooled) == CUDA_SUCCESS);
  CHECK(cuCtxDestroy(first) == CUDA_SUCCESS);
}

// Memory of contexts that come and go, each with a block that it leaves, is used again: it would not fit otherwise.
void ManyContexts() {
  CUcontext stays = MakeContext();
  const CUdeviceptr block = Allocate();
  for (int i = 0; i < 200; ++i) {
    CUcontext context = MakeContext();
    CHECK(Usable(Allocate()));
    CHECK(cuCtxDestroy(context) == CUDA_SUCCESS);
    CHECK(simcudaPhysicalBytes(0) <= 64 << 20);
  }
  CHECK(Usable(block) && cuMemFree(block) == CUDA_SUCCESS);
  CHECK(cuCtxDestroy(stays) == CUDA_SUCCESS);
}

// Without a current context memory can be freed, but not on a stream that only a context gives a meaning.
void FreesWithoutContext() {
  CUcontext context = MakeContext(), popped = nullptr;
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  const CUdeviceptr block = Allocate(), ordered = Allocate(true), other = Allocate(true);
  const auto freed_by_name_only = [&] {
    CHECK(cuMemFreeAsync(other, nullptr) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuMemFreeAsync(other, CU_STREAM_PER_THREAD) == CUDA_ERROR_INVALID_CONTEXT);
  };
  CHECK(cuCtxPopCurrent(&popped) == CUDA_SUCCESS && popped == context);
  freed_by_name_only();
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  CHECK(Usable(other));
  CHECK(cuCtxSetCurrent(nullptr) == CUDA_SUCCESS);
  freed_by_name_only();
  std::thread(freed_by_name_only).join();
  CHECK(cuMemFreeAsync(ordered, stream) == CUDA_SUCCESS);
  CHECK(cuMemFree(block) == CUDA_SUCCESS);
  CHECK(cuCtxPushCurrent(context) == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(other, nullptr) == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(cuCtxDestroy(context) == CUDA_SUCCESS);
}

// The same as when the current context alone was destroyed, though the device is served in another one.
void OneOfTwoDestroyed() {
  CUcontext stays = MakeContext(), ends = MakeContext();
  CHECK(cuCtxSetCurrent(stays) == CUDA_SUCCESS);
  const CUdeviceptr block = Allocate();
  CHECK(cuCtxSetCurrent(ends) == CUDA_SUCCESS);
  const CUdeviceptr inside = Allocate();
  std::thread([&] { CHECK(cuCtxDestroy(ends) == CUDA_SUCCESS); }).join();
  CUdeviceptr made = 0;
  CHECK(cuMemAlloc(&made, kBytes) == CUDA_ERROR_CONTEXT_IS_DESTROYED && made == 0);
  CHECK(cuMemFree(inside) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(cuMemFree(block) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(cuCtxSetCurrent(stays) == CUDA_SUCCESS);
  CHECK(Usable(block) && cuMemFree(block) == CUDA_SUCCESS && cuMemFree(inside) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCtxDestroy(stays) == CUDA_SUCCESS);
  CUcontext popped = nullptr;
  while (cuCtxPopCurrent(&popped) == CUDA_SUCCESS) {
  }
}

// What was allocated in a green context, which may be the first that asks for anything, is the primary context's: it
// outlives the green one, but not the primary, which may end with its last green context. The handle comes back for
// another context.
void GreenContexts() {
  CUcontext primary = nullptr, in_green = nullptr, current = nullptr;
  CUgreenCtx green = nullptr;
  CHECK(cuCtxSetCurrent(nullptr) == CUDA_SUCCESS);
  CHECK(cuGreenCtxCreate(&green, nullptr, 0, CU_GREEN_CTX_DEFAULT_STREAM) == CUDA_SUCCESS);
  CHECK(cuCtxFromGreenCtx(&in_green, green) == CUDA_SUCCESS && cuCtxSetCurrent(in_green) == CUDA_SUCCESS);
  const CUdeviceptr block = Allocate(), pooled = Allocate(true), freed = Allocate(true);
  CHECK(Usable(block) && Usable(pooled));
  CHECK(simcudaWriteTag(nullptr, freed, kBytes, 3) == CUDA_SUCCESS && cuMemFreeAsync(freed, nullptr) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRetain(&primary, 0) == CUDA_SUCCESS && primary != in_green);
  CHECK(cuGreenCtxDestroy(green) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(primary) == CUDA_SUCCESS);
  CHECK(Usable(block) && Usable(pooled));
  const CUdeviceptr again = Allocate(true), more = Allocate();
  CHECK(Usable(again) && Usable(more) && cuMemFree(again) == CUDA_SUCCESS && cuMemFree(more) == CUDA_SUCCESS);
  CUcontext ordinary = MakeContext();
  CHECK(ordinary == in_green && Usable(Allocate()));
  CHECK(cuCtxDestroy(ordinary) == CUDA_SUCCESS && cuCtxSetCurrent(primary) == CUDA_SUCCESS);
  CHECK(Usable(block) && Usable(pooled) && cuMemFree(pooled) == CUDA_SUCCESS);
  CHECK(cuGreenCtxCreate(&green, nullptr, 0, CU_GREEN_CTX_DEFAULT_STREAM) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS && cuCtxSetCurrent(nullptr) == CUDA_SUCCESS);
  CHECK(cuCtxFromGreenCtx(&in_green, green) == CUDA_SUCCESS && cuCtxSetCurrent(in_green) == CUDA_SUCCESS);
  CHECK(Usable(block) && Usable(Allocate()));
  CHECK(cuGreenCtxDestroy(green) == CUDA_SUCCESS);
  CHECK(cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == nullptr);
  CHECK(cuMemFree(block) == CUDA_ERROR_INVALID_VALUE);
  CHECK(simcudaPhysicalBytes(0) <= std::size_t{32} << 20);
}

// At exit, when the runtime library lets the primary context go, nothing is taken apart page by page.
std::uint64_t unmapped = 0;
void EndPrimary() { CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS && simcudaCallCount("cuMemUnmap") == unmapped); }

}  // namespace

// contexts [reset]
int main(int count, char** arguments) {
  CHECK(std::atexit(EndPrimary) == 0);
  CHECK(cuInit(0) == CUDA_SUCCESS);
  PrimaryThatEndsFirst(count > 1 && std::strcmp(arguments[1], "reset") == 0);
  CurrentContextDestroyed();
  TwoContextsOfOneDevice();
  MemoryEndsWithItsContext();
  ManyContexts();
  FreesWithoutContext();
  OneOfTwoDestroyed();
  PrimaryIsNotDestroyed();
  RefusedEnds();
  Reset();
  GreenContexts();
  UnusedGreenContext();
  CHECK(simcudaCorruptions() == 0);
  CUcontext context = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS && cuCtxSetCurrent(context) == CUDA_SUCCESS);
  CHECK(Usable(Allocate()));
  unmapped = simcudaCallCount("cuMemUnmap");
  return 0;
}
