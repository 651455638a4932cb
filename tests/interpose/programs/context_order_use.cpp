// What the cases are made of: a context, a stream, a block that is written and still to be read.
#include <cstdint>
#include <vector>

#include "context_order.h"

namespace context_order {

CUcontext Made() {
  CUcontext context = nullptr, popped = nullptr;
  CHECK(cuCtxCreate(&context, nullptr, 0, 0) == CUDA_SUCCESS);
  CHECK(cuCtxPopCurrent(&popped) == CUDA_SUCCESS && popped == context);
  return context;
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

namespace {
std::uint64_t next_tag = 1;
}

void Use(CUdeviceptr block, CUstream stream) {
  const std::uint64_t tag = next_tag++;
  CHECK(simcudaWriteTag(stream, block, kBytes, tag) == CUDA_SUCCESS && cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(simcudaReadTag(stream, block, kBytes, tag) == CUDA_SUCCESS);
}

void Overwrite(CUstream stream) {
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 4; ++i) Use(blocks.emplace_back(Allocate(stream)), stream);
  for (const CUdeviceptr block : blocks) CHECK(cuMemFreeAsync(block, stream) == CUDA_SUCCESS);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
}

void OverwriteUnordered() {
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 4; ++i) Use(blocks.emplace_back(Allocate()), nullptr);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  for (const CUdeviceptr block : blocks) CHECK(cuMemFree(block) == CUDA_SUCCESS);
}

}  // namespace context_order
