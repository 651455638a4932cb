// A training loop's memory in plain CUDA C++: forward allocates, backward frees in reverse, twice over on four threads
// with a stream each, through cudaMallocAsync and through cudaMalloc. Every block is filled with a value of its own by
// one kernel and summed by a later one; a block that was handed out twice or reused too early makes a wrong sum.
//
// Built three times: static cudart, shared cudart, per-thread default stream.
#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr int kThreads = 4;
constexpr int kIterations = 30;
constexpr int kLayers = 24;

__global__ void Fill(std::uint32_t* words, std::size_t count, std::uint32_t value) {
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::size_t>(gridDim.x) * blockDim.x) {
    words[i] = value;
  }
}

__global__ void CountWrong(const std::uint32_t* words, std::size_t count, std::uint32_t value,
                           unsigned long long* wrong) {
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::size_t>(gridDim.x) * blockDim.x) {
    if (words[i] != value) {
      atomicAdd(wrong, 1ULL);
    }
  }
}

struct Layer {
  std::uint32_t* words;
  std::size_t count;
  std::uint32_t value;
};

// One thread's training. Stream 0 is the legacy or the per-thread default stream, as the program was compiled.
void Train(int thread, bool default_stream, unsigned long long* wrong) {
  cudaStream_t stream = nullptr;
  if (!default_stream) {
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    std::vector<Layer> layers;
    for (int i = 0; i < kLayers; ++i) {
      Layer layer{nullptr, (std::size_t{1} << 16) * static_cast<std::size_t>(1 + (i * 7 + thread) % 13) + 100,
                  static_cast<std::uint32_t>(thread << 24 | iteration << 12 | i)};
      void* memory = nullptr;
      if (i % 8 == 7) {  // now and then a synchronous one among the stream-ordered
        CHECK_CUDA(cudaMalloc(&memory, layer.count * 4));
      } else {
        CHECK_CUDA(cudaMallocAsync(&memory, layer.count * 4, stream));
      }
      layer.words = static_cast<std::uint32_t*>(memory);
      Fill<<<128, 256, 0, stream>>>(layer.words, layer.count, layer.value);
      layers.push_back(layer);
    }
    for (int i = kLayers - 1; i >= 0; --i) {
      const Layer& layer = layers[static_cast<std::size_t>(i)];
      CountWrong<<<128, 256, 0, stream>>>(layer.words, layer.count, layer.value, wrong);
      if (i % 8 == 7) {
        CHECK_CUDA(cudaFree(layer.words));
      } else {
        CHECK_CUDA(cudaFreeAsync(layer.words, stream));
      }
    }
    CHECK_CUDA(cudaGetLastError());
  }
  CHECK_CUDA(cudaStreamSynchronize(stream));
  if (stream != nullptr) {
    CHECK_CUDA(cudaStreamDestroy(stream));
  }
}

}  // namespace

int main() {
  void* memory = nullptr;
  CHECK_CUDA(cudaMalloc(&memory, sizeof(unsigned long long)));
  auto* const wrong = static_cast<unsigned long long*>(memory);
  CHECK_CUDA(cudaMemset(wrong, 0, sizeof(*wrong)));
  const auto started = std::chrono::steady_clock::now();
  for (const bool default_stream : {false, true}) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back(Train, i, default_stream, wrong);
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  CHECK_CUDA(cudaDeviceSynchronize());
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - started;
  unsigned long long count = 0;
  CHECK_CUDA(cudaMemcpy(&count, wrong, sizeof(count), cudaMemcpyDeviceToHost));
  std::printf("result wrong_words %llu\n", count);
  std::printf("info step_ms %.3f\n", elapsed.count() / (2 * kIterations));
  std::size_t pitch = 0;
  void* rows = nullptr;
  CHECK_CUDA(cudaMallocPitch(&rows, &pitch, 1000, 33));
  CHECK_CUDA(cudaMemset2D(rows, pitch, 7, 1000, 33));
  CHECK_CUDA(cudaFree(rows));
  std::printf("result pitch %zu\n", pitch);
  CHECK_CUDA(cudaFree(wrong));
  return count == 0 ? 0 : 1;
}
