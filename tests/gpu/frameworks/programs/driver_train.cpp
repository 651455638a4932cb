// The driver API alone, linked with -lcuda: synchronous and stream-ordered allocation, two contexts' worth of streams,
// values checked by copies back. No kernel, so that a host compiler builds it.
#include <cuda.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "check.h"

int main() {
  CHECK_CUDA(cuInit(0));
  CUdevice device = 0;
  CUcontext context = nullptr;
  CHECK_CUDA(cuDeviceGet(&device, 0));
  CHECK_CUDA(cuDevicePrimaryCtxRetain(&context, device));
  CHECK_CUDA(cuCtxSetCurrent(context));
  CUstream streams[2] = {};
  for (CUstream& stream : streams) {
    CHECK_CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  }
  const auto started = std::chrono::steady_clock::now();
  std::uint64_t wrong = 0;
  constexpr int kIterations = 25;
  for (std::uint32_t iteration = 0; iteration < kIterations; ++iteration) {
    std::vector<CUdeviceptr> blocks;
    std::vector<std::size_t> counts;
    for (std::uint32_t i = 0; i < 24; ++i) {
      CUdeviceptr block = 0;
      const std::size_t count = 60000 + 40000 * ((i * 5) % 11);
      CUstream stream = streams[i % 2];
      if (i % 3 == 0) {
        CHECK_CUDA(cuMemAlloc(&block, count * 4));
      } else {
        CHECK_CUDA(cuMemAllocAsync(&block, count * 4, stream));
      }
      CHECK_CUDA(cuMemsetD32Async(block, iteration << 8 | i, count, stream));
      blocks.push_back(block);
      counts.push_back(count);
    }
    std::vector<std::uint32_t> host;
    for (std::uint32_t i = 24; i-- > 0;) {
      CUstream stream = streams[i % 2];
      host.assign(counts[i], 0);
      CHECK_CUDA(cuMemcpyDtoHAsync(host.data(), blocks[i], counts[i] * 4, stream));
      CHECK_CUDA(cuStreamSynchronize(stream));
      for (const std::uint32_t word : host) {
        wrong += word != (iteration << 8 | i);
      }
      if (i % 3 == 0) {
        CHECK_CUDA(cuMemFree(blocks[i]));
      } else {
        CHECK_CUDA(cuMemFreeAsync(blocks[i], stream));
      }
    }
  }
  CHECK_CUDA(cuCtxSynchronize());
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - started;
  std::printf("result wrong_words %llu\n", static_cast<unsigned long long>(wrong));
  std::printf("info step_ms %.3f\n", elapsed.count() / kIterations);
  for (CUstream stream : streams) {
    CHECK_CUDA(cuStreamDestroy(stream));
  }
  CHECK_CUDA(cuDevicePrimaryCtxRelease(device));
  return wrong == 0 ? 0 : 1;
}
