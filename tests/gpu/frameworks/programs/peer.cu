// Peer access between two devices of one process: a kernel on one reads and writes blocks of the other, made before and
// after cudaDeviceEnablePeerAccess, by cudaMalloc and from the default pool, whose access is given by
// cudaMemPoolSetAccess.
#include <cuda_runtime.h>

#include <cstdint>

#include "check.h"
#include "need_two_devices.h"

namespace {

constexpr std::size_t kCount = std::size_t{3} << 19;

__global__ void AddTo(std::uint32_t* to, const std::uint32_t* from, std::size_t count) {
  const std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
  if (i < count) {
    to[i] += from[i];
  }
}

std::uint32_t* Filled(int device, bool async, int byte) {
  void* block = nullptr;
  CHECK_CUDA(cudaSetDevice(device));
  if (async) {
    CHECK_CUDA(cudaMallocAsync(&block, kCount * 4, nullptr));
  } else {
    CHECK_CUDA(cudaMalloc(&block, kCount * 4));
  }
  CHECK_CUDA(cudaMemset(block, byte, kCount * 4));
  CHECK_CUDA(cudaDeviceSynchronize());
  return static_cast<std::uint32_t*>(block);
}

std::uint64_t Sum(const std::uint32_t* block) {
  static std::uint32_t host[kCount];
  CHECK_CUDA(cudaMemcpy(host, block, sizeof(host), cudaMemcpyDeviceToHost));
  std::uint64_t sum = 0;
  for (const std::uint32_t word : host) {
    sum += word;
  }
  return sum;
}

}  // namespace

int main() {
  NeedTwoDevices();
  int can = 0;
  CHECK_CUDA(cudaDeviceCanAccessPeer(&can, 0, 1));
  if (can == 0) {
    std::printf("skip the devices cannot reach each other\n");
    return 0;
  }
  std::uint32_t* const early = Filled(1, false, 2);
  CHECK_CUDA(cudaSetDevice(0));
  CHECK_CUDA(cudaDeviceEnablePeerAccess(1, 0));
  std::uint32_t* const late = Filled(1, false, 3);
  cudaMemPool_t pool = nullptr;
  CHECK_CUDA(cudaDeviceGetDefaultMemPool(&pool, 1));
  cudaMemAccessDesc access = {};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = 0;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  CHECK_CUDA(cudaMemPoolSetAccess(pool, &access, 1));
  std::uint32_t* const pooled = Filled(1, true, 5);
  std::uint32_t* const own = Filled(0, false, 1);
  CHECK_CUDA(cudaSetDevice(0));
  for (std::uint32_t* peer : {early, late, pooled}) {
    AddTo<<<(kCount + 255) / 256, 256>>>(own, peer, kCount);
    AddTo<<<(kCount + 255) / 256, 256>>>(peer, own, kCount);
  }
  CHECK_CUDA(cudaDeviceSynchronize());
  void* copied = nullptr;
  CHECK_CUDA(cudaMalloc(&copied, kCount * 4));
  CHECK_CUDA(cudaMemcpyPeer(copied, 0, pooled, 1, kCount * 4));
  std::printf("result sums %llu,%llu,%llu\n", static_cast<unsigned long long>(Sum(own)),
              static_cast<unsigned long long>(Sum(early)), static_cast<unsigned long long>(Sum(late)));
  std::printf("result copied %llu\n", static_cast<unsigned long long>(Sum(static_cast<std::uint32_t*>(copied))));
  const int again = static_cast<int>(cudaDeviceEnablePeerAccess(1, 0));
  std::printf("result enabled_again %d,%d\n", again, static_cast<int>(cudaGetLastError()));
  CHECK_CUDA(cudaFree(own));
  CHECK_CUDA(cudaFree(copied));
  CHECK_CUDA(cudaSetDevice(1));
  CHECK_CUDA(cudaFree(early));
  CHECK_CUDA(cudaFree(late));
  CHECK_CUDA(cudaFreeAsync(pooled, nullptr));
  CHECK_CUDA(cudaDeviceSynchronize());
  return 0;
}
