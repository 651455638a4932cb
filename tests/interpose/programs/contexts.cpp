// Contexts that end: their memory goes back, their addresses are unknown from then on, those of another context on the
// same device are untouched, and the next context is served.
#include <cuda.h>
#include <simcuda/extensions.h>

#include <cstdlib>
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

// At exit, when the runtime library lets the primary context go, nothing is taken apart page by page.
std::uint64_t unmapped = 0;
void EndPrimary() { CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS && simcudaCallCount("cuMemUnmap") == unmapped); }

}  // namespace

int main() {
  CHECK(std::atexit(EndPrimary) == 0);
  CHECK(cuInit(0) == CUDA_SUCCESS);
  CurrentContextDestroyed();
  TwoContextsOfOneDevice();
  Reset();
  CHECK(simcudaCorruptions() == 0);
  CUcontext context = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS && cuCtxSetCurrent(context) == CUDA_SUCCESS);
  CHECK(Usable(Allocate()));
  unmapped = simcudaCallCount("cuMemUnmap");
  return 0;
}
