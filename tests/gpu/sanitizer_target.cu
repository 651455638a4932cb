// What sanitizer.py runs under compute-sanitizer, and under a profiler's library: a sound program, or one fault by
// name.
//
// Prints status codes and sums, which must be the same with the shim and without it.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <vector>

namespace {

constexpr int kCount = 1000;  // 4000 bytes: no multiple of what an allocator rounds to
constexpr int kThreads = 256;
constexpr int kBlocks = (kCount + kThreads - 1) / kThreads;

__global__ void Fill(float* to, int count, float value) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) to[i] = value + static_cast<float>(i);
}

__global__ void Add(float* to, const float* from, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) to[i] += from[i];
}

__global__ void Race(float* to) {
  __shared__ float shared[kThreads];
  shared[threadIdx.x] = static_cast<float>(threadIdx.x);
  // No barrier: another warp's value may not be there yet.
  to[threadIdx.x] = shared[kThreads - 1 - threadIdx.x];
}

float* Malloc(bool async) {
  void* block = nullptr;
  const std::size_t bytes = kCount * sizeof(float);
  const cudaError_t status = async ? cudaMallocAsync(&block, bytes, nullptr) : cudaMalloc(&block, bytes);
  if (status != cudaSuccess) std::printf("allocation: %d\n", status);
  return static_cast<float*>(block);
}

void Free(float* block, bool async) { async ? cudaFreeAsync(block, nullptr) : cudaFree(block); }

double Sum(const float* block) {
  std::vector<float> host(kCount);
  const cudaError_t status = cudaMemcpy(host.data(), block, kCount * sizeof(float), cudaMemcpyDeviceToHost);
  if (status != cudaSuccess) std::printf("copy: %d\n", status);
  double sum = 0;
  for (const float value : host) sum += value;
  return sum;
}

void Sound() {
  double sum = 0;
  for (int i = 0; i < 40; ++i) {
    const bool async = i % 2 != 0;
    float* a = Malloc(async);
    float* b = Malloc(!async);
    Fill<<<kBlocks, kThreads>>>(a, kCount, 1.0f);
    Fill<<<kBlocks, kThreads>>>(b, kCount, static_cast<float>(i));
    Add<<<kBlocks, kThreads>>>(a, b, kCount);
    sum += Sum(a);
    Free(a, async);
    Free(b, !async);
  }
  std::printf("sum %.1f\n", sum);
}

void Overrun(bool async) {
  float* block = Malloc(async);
  Fill<<<kBlocks, kThreads>>>(block, kCount + 1, 1.0f);
}

void AfterFree() {
  float* block = Malloc(false);
  Free(block, false);
  Fill<<<kBlocks, kThreads>>>(block, kCount, 1.0f);
}

void Uninitialised() {
  float* a = Malloc(false);
  float* b = Malloc(true);
  Fill<<<kBlocks, kThreads>>>(a, kCount, 1.0f);
  Add<<<kBlocks, kThreads>>>(a, b, kCount);
}

void Racing() { Race<<<1, kThreads>>>(Malloc(false)); }

}  // namespace

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "sound";
  if (const cudaError_t status = cudaFree(nullptr); status != cudaSuccess) {
    std::fprintf(stderr, "no device: %s\n", cudaGetErrorString(status));
    return 77;
  }
  const auto is = [&](const char* name) { return std::strcmp(mode, name) == 0; };
  if (is("sound"))
    Sound();
  else if (is("overrun") || is("overrun_async"))
    Overrun(is("overrun_async"));
  else if (is("after_free"))
    AfterFree();
  else if (is("uninitialised"))
    Uninitialised();
  else if (is("race"))
    Racing();
  else
    return 2;
  const cudaError_t ended = cudaDeviceSynchronize();
  std::printf("%s ended with %d\n", mode, ended);
  return 0;
}
