// What a request costs the host: pairs of cudaMallocAsync and cudaFreeAsync, alone and in a program that repeats.
//
// Prints `row NAME NANOSECONDS`: `pair_*` is one allocate + free in a loop (the shim learns nothing there that helps:
// its online cost); `step_*` is a training-like iteration of 256 requests that recurs, timed in its first iterations
// (online, while it is recorded) and in its last (planned, if the shim found the period). No kernel runs: only the
// calls are timed, and each iteration ends with a synchronisation outside the clock.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "frameworks/programs/check.h"

namespace {

using Clock = std::chrono::steady_clock;

double Nanoseconds(Clock::duration elapsed) { return std::chrono::duration<double, std::nano>(elapsed).count(); }

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void Row(const std::string& name, double nanoseconds) { std::printf("row %s %.1f\n", name.c_str(), nanoseconds); }

void Pairs(std::size_t bytes, const char* label, cudaStream_t stream) {
  std::vector<double> batches;
  for (int batch = 0; batch < 12; ++batch) {
    constexpr int kPairs = 4000;
    const auto started = Clock::now();
    for (int i = 0; i < kPairs; ++i) {
      void* block = nullptr;
      CHECK_CUDA(cudaMallocAsync(&block, bytes, stream));
      CHECK_CUDA(cudaFreeAsync(block, stream));
    }
    batches.push_back(Nanoseconds(Clock::now() - started) / kPairs);
    CHECK_CUDA(cudaStreamSynchronize(stream));
  }
  Row(std::string("pair_") + label, Median({batches.begin() + 2, batches.end()}));
}

void SynchronousPairs(std::size_t bytes) {
  constexpr int kPairs = 300;
  const auto started = Clock::now();
  for (int i = 0; i < kPairs; ++i) {
    void* block = nullptr;
    CHECK_CUDA(cudaMalloc(&block, bytes));
    CHECK_CUDA(cudaFree(block));
  }
  Row("pair_cudaMalloc_1MiB", Nanoseconds(Clock::now() - started) / kPairs);
}

// A layer's requests come from a function of their own, so that call sites differ as they do in a framework.
template <int kSite>
[[gnu::noinline]] void* Request(std::size_t bytes, cudaStream_t stream) {
  void* block = nullptr;
  CHECK_CUDA(cudaMallocAsync(&block, bytes, stream));
  return block;
}

// One iteration: per layer a kept activation and two temporaries; then the way back. Returns nanoseconds per pair.
double Iteration(cudaStream_t stream) {
  constexpr int kLayers = 64;
  std::vector<void*> kept;
  kept.reserve(kLayers);
  const auto started = Clock::now();
  for (std::size_t i = 0; i < kLayers; ++i) {
    const std::size_t unit = (1 + i % 5) << 18;
    void* first = Request<0>(unit, stream);
    void* second = Request<1>(2 * unit + 512, stream);
    kept.push_back(Request<2>(3 * unit, stream));
    CHECK_CUDA(cudaFreeAsync(first, stream));
    CHECK_CUDA(cudaFreeAsync(second, stream));
  }
  while (!kept.empty()) {
    void* gradient = Request<3>(4096 * kept.size(), stream);
    CHECK_CUDA(cudaFreeAsync(kept.back(), stream));
    kept.pop_back();
    CHECK_CUDA(cudaFreeAsync(gradient, stream));
  }
  const double elapsed = Nanoseconds(Clock::now() - started);
  CHECK_CUDA(cudaStreamSynchronize(stream));
  return elapsed / (4 * kLayers);
}

}  // namespace

int main() {
  cudaStream_t stream = nullptr;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  // As PyTorch's backend does: the pool keeps what it has, so that the native column is at its best.
  cudaMemPool_t pool = nullptr;
  CHECK_CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
  unsigned long long keep_all = ~0ULL;
  CHECK_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all));
  std::vector<double> iterations;
  for (int i = 0; i < 600; ++i) {
    iterations.push_back(Iteration(stream));
  }
  Row("step_first", iterations.front());
  Row("step_2_to_6", Median({iterations.begin() + 1, iterations.begin() + 6}));
  Row("step_last_200", Median({iterations.end() - 200, iterations.end()}));
  Pairs(4096, "4KiB", stream);
  Pairs(std::size_t{1} << 20, "1MiB", stream);
  Pairs(std::size_t{64} << 20, "64MiB", stream);
  SynchronousPairs(std::size_t{1} << 20);
  CHECK_CUDA(cudaStreamDestroy(stream));
  return 0;
}
