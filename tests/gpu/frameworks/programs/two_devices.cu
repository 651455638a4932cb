// Two devices in one process without peer access: copies that do not name the devices, requests on the stream of a
// device that is not current, and blocks freed on the other device's stream while it still has to read them.
#include <cuda_runtime.h>

#include <cstdint>

#include "check.h"
#include "need_two_devices.h"

namespace {

constexpr std::size_t kCount = std::size_t{3} << 20;
constexpr std::size_t kBytes = kCount * 4;

__global__ void Fill(std::uint32_t* to, std::uint32_t value) {
  const std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
  if (i < kCount) {
    to[i] = value;
  }
}

// Slowly, so that what is reused too early is overwritten before it is read.
__global__ void CountWrong(const std::uint32_t* words, std::uint32_t value, unsigned long long* wrong) {
  const std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
  for (const long long start = clock64(); clock64() - start < 200000;) {
  }
  if (i < kCount && words[i] != value) {
    atomicAdd(wrong, 1ULL);
  }
}

constexpr unsigned kBlocks = (kCount + 255) / 256;

struct Device {
  cudaStream_t stream = nullptr;
  unsigned long long* wrong = nullptr;
};

std::uint32_t* AllocateOn(int device, int current, cudaStream_t stream) {
  void* block = nullptr;
  CHECK_CUDA(cudaSetDevice(current));
  CHECK_CUDA(cudaMallocAsync(&block, kBytes, stream));
  cudaPointerAttributes about = {};
  CHECK_CUDA(cudaPointerGetAttributes(&about, block));
  if (about.device != device) {
    std::printf("result failed memory_of_device_%d_instead_of_%d\n", about.device, device);
    std::exit(1);
  }
  return static_cast<std::uint32_t*>(block);
}

}  // namespace

int main() {
  NeedTwoDevices();
  Device devices[2];
  for (int d = 0; d < 2; ++d) {
    CHECK_CUDA(cudaSetDevice(d));
    CHECK_CUDA(cudaStreamCreateWithFlags(&devices[d].stream, cudaStreamNonBlocking));
    CHECK_CUDA(cudaMallocManaged(&devices[d].wrong, sizeof(unsigned long long)));
    *devices[d].wrong = 0;
  }

  // cudaMalloc memory is copied between devices by any call, with nothing enabled.
  void* ends[2] = {};
  for (int d = 0; d < 2; ++d) {
    CHECK_CUDA(cudaSetDevice(d));
    CHECK_CUDA(cudaMalloc(&ends[d], kBytes));
  }
  static std::uint32_t host[kCount];
  for (std::uint32_t round = 1; round <= 4; ++round) {
    CHECK_CUDA(cudaSetDevice(0));
    Fill<<<kBlocks, 256, 0, devices[0].stream>>>(static_cast<std::uint32_t*>(ends[0]), round);
    if (round == 1) {
      CHECK_CUDA(cudaMemcpyAsync(ends[1], ends[0], kBytes, cudaMemcpyDeviceToDevice, devices[0].stream));
    } else if (round == 2) {
      CHECK_CUDA(cudaMemcpyAsync(ends[1], ends[0], kBytes, cudaMemcpyDefault, devices[0].stream));
    } else if (round == 3) {
      CHECK_CUDA(cudaMemcpyPeerAsync(ends[1], 1, ends[0], 0, kBytes, devices[0].stream));
    } else {
      CHECK_CUDA(cudaStreamSynchronize(devices[0].stream));
      CHECK_CUDA(cudaMemcpy(ends[1], ends[0], kBytes, cudaMemcpyDeviceToDevice));
    }
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK_CUDA(cudaMemcpy(host, ends[1], kBytes, cudaMemcpyDeviceToHost));
    std::uint64_t sum = 0;
    for (const std::uint32_t word : host) {
      sum += word;
    }
    std::printf("result copy_%u %llu\n", round, static_cast<unsigned long long>(sum));
  }

  // Each request's memory is its stream's device's, and is reused in that stream's order.
  for (std::uint32_t round = 1; round <= 40; ++round) {
    const int device = static_cast<int>(round % 2), current = static_cast<int>(round / 2 % 2);
    Device& on = devices[device];
    std::uint32_t* const block = AllocateOn(device, current, on.stream);
    CHECK_CUDA(cudaSetDevice(device));
    Fill<<<kBlocks, 256, 0, on.stream>>>(block, round);
    CountWrong<<<kBlocks, 256, 0, on.stream>>>(block, round, on.wrong);
    CHECK_CUDA(cudaSetDevice(current));
    CHECK_CUDA(cudaFreeAsync(block, on.stream));
  }

  // The other device copies from the block, which is then freed in that device's stream; at once the block's own device
  // writes new ones.
  for (std::uint32_t round = 1; round <= 20; ++round) {
    std::uint32_t* const block = AllocateOn(1, 1, devices[1].stream);
    Fill<<<kBlocks, 256, 0, devices[1].stream>>>(block, round);
    CHECK_CUDA(cudaStreamSynchronize(devices[1].stream));
    CHECK_CUDA(cudaSetDevice(0));
    Fill<<<kBlocks, 256, 0, devices[0].stream>>>(static_cast<std::uint32_t*>(ends[0]), 0);
    CHECK_CUDA(cudaMemcpyPeerAsync(ends[0], 0, block, 1, kBytes, devices[0].stream));
    CHECK_CUDA(cudaFreeAsync(block, devices[0].stream));
    std::uint32_t* const next = AllocateOn(1, 1, devices[1].stream);
    Fill<<<kBlocks, 256, 0, devices[1].stream>>>(next, 1000);
    CHECK_CUDA(cudaFreeAsync(next, devices[1].stream));
    CHECK_CUDA(cudaSetDevice(0));
    CountWrong<<<kBlocks, 256, 0, devices[0].stream>>>(static_cast<std::uint32_t*>(ends[0]), round, devices[0].wrong);
    CHECK_CUDA(cudaStreamSynchronize(devices[0].stream));
  }
  for (int d = 0; d < 2; ++d) {
    CHECK_CUDA(cudaSetDevice(d));
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK_CUDA(cudaFree(ends[d]));
  }
  std::printf("result wrong %llu,%llu\n", *devices[0].wrong, *devices[1].wrong);
  return 0;
}
