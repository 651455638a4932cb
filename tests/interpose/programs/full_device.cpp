// Fills the device, then does what programs do there: asks for less and less until it is given something, frees, and
// goes on as if nothing had been.
//
// usage: full_device [too-large]    too-large: only asks for more than any device has
#include <cuda_runtime_api.h>

#include <vector>

#include "check.h"

static constexpr std::size_t kMiB = std::size_t{1} << 20;

// A name that a report can find: exported, and in a frame of its own.
extern "C" __attribute__((visibility("default"), noinline)) void FillTheDevice(std::vector<void*>* blocks) {
  for (void* block = nullptr; cudaMallocAsync(&block, 16 * kMiB, nullptr) == cudaSuccess;) blocks->push_back(block);
}

int main(int argc, char**) {
  void* block = nullptr;
  CHECK(cudaMallocAsync(&block, 1000, nullptr) == cudaSuccess);
  if (argc > 1) {
    CHECK(cudaMallocAsync(&block, std::size_t{1} << 40, nullptr) == cudaErrorMemoryAllocation);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
    return 0;
  }
  std::vector<void*> blocks;
  FillTheDevice(&blocks);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(blocks.size() > 4);
  std::size_t bytes = 256 * kMiB;
  for (; cudaMallocAsync(&block, bytes, nullptr) != cudaSuccess; bytes /= 2) CHECK(bytes > 1);
  cudaGetLastError();
  for (void* each : blocks) CHECK(cudaFreeAsync(each, nullptr) == cudaSuccess);
  CHECK(cudaMallocAsync(&block, 64 * kMiB, nullptr) == cudaSuccess);
  CHECK(cudaFreeAsync(block, nullptr) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(cudaGetLastError() == cudaSuccess);
  return 0;
}
