// CUDA graphs in C++: one graph with allocation nodes of its own, one that uses memory allocated before the capture.
// Between replays other memory is allocated, filled and freed; what a live graph uses must never be among it.
#include <cuda_runtime.h>

#include <cstdint>

#include "check.h"

namespace {

constexpr std::size_t kCount = std::size_t{1} << 20;

__global__ void Add(std::uint32_t* to, const std::uint32_t* from, std::uint32_t value) {
  const std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
  if (i < kCount) {
    to[i] = from[i] + value;
  }
}

__global__ void CountWrong(const std::uint32_t* words, std::uint32_t value, unsigned long long* wrong) {
  const std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
  if (i < kCount && words[i] != value) {
    atomicAdd(wrong, 1ULL);
  }
}

void Poison(cudaStream_t stream) {
  void* blocks[6] = {};
  for (void*& block : blocks) {
    CHECK_CUDA(cudaMallocAsync(&block, kCount * 4, stream));
    CHECK_CUDA(cudaMemsetAsync(block, 0xEE, kCount * 4, stream));
  }
  for (void* block : blocks) {
    CHECK_CUDA(cudaFreeAsync(block, stream));
  }
}

}  // namespace

int main() {
  constexpr int kBlocks = kCount / 256;
  cudaStream_t stream = nullptr;
  CHECK_CUDA(cudaStreamCreate(&stream));
  void *in = nullptr, *out = nullptr, *counter = nullptr;
  CHECK_CUDA(cudaMallocAsync(&in, kCount * 4, stream));
  CHECK_CUDA(cudaMallocAsync(&out, kCount * 4, stream));
  CHECK_CUDA(cudaMalloc(&counter, 8));
  CHECK_CUDA(cudaMemset(counter, 0, 8));
  auto* const input = static_cast<std::uint32_t*>(in);
  auto* const output = static_cast<std::uint32_t*>(out);
  auto* const wrong = static_cast<unsigned long long*>(counter);

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  void* middle = nullptr;
  const cudaError_t inside = cudaMallocAsync(&middle, kCount * 4, stream);  // becomes the graph's own node
  std::printf("result alloc_in_capture %d\n", static_cast<int>(inside));
  if (inside == cudaSuccess) {
    Add<<<kBlocks, 256, 0, stream>>>(static_cast<std::uint32_t*>(middle), input, 5);
    Add<<<kBlocks, 256, 0, stream>>>(output, static_cast<std::uint32_t*>(middle), 6);
    CHECK_CUDA(cudaFreeAsync(middle, stream));
  }
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  std::size_t nodes = 0;
  CHECK_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  std::printf("result nodes %zu\n", nodes);
  CHECK_CUDA(cudaGraphInstantiate(&executable, graph, 0));

  for (std::uint32_t i = 0; i < 20; ++i) {
    CHECK_CUDA(cudaMemsetAsync(input, static_cast<int>(i), kCount * 4, stream));
    Poison(stream);
    CHECK_CUDA(cudaGraphLaunch(executable, stream));
    Poison(stream);
    CountWrong<<<kBlocks, 256, 0, stream>>>(output, i * 0x01010101u + 11, wrong);
  }
  unsigned long long count = 0;
  CHECK_CUDA(cudaStreamSynchronize(stream));
  CHECK_CUDA(cudaMemcpy(&count, wrong, 8, cudaMemcpyDeviceToHost));
  std::printf("result wrong_words %llu\n", count);
  CHECK_CUDA(cudaGraphExecDestroy(executable));
  CHECK_CUDA(cudaGraphDestroy(graph));
  CHECK_CUDA(cudaFreeAsync(input, stream));
  CHECK_CUDA(cudaFreeAsync(output, stream));
  CHECK_CUDA(cudaFree(wrong));
  CHECK_CUDA(cudaStreamDestroy(stream));
  return count == 0 ? 0 : 1;
}
