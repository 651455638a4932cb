// What a request costs the host: pairs of cudaMallocAsync and cudaFreeAsync as a training step issues them, one and the
// same pair over and over, and from four threads at once. One mode a process, so that what the shim says about the
// process (how much was planned) is said of that mode.
//
//   step     an iteration of 256 requests that recurs for two seconds: step_2_to_6, when the shim has no plan yet and
//            watches (or tries a kept one), and step_last_200, when a plan has proven itself and nothing is watched
//   default  the same on the default stream, of which the shim must ask whose it is
//   pairs    one size over and over, and cudaMalloc + cudaFree
//   threads  that iteration in one thread, then in four threads at once, each on a stream of its own and all on one
//   asked    what PyTorch asks around a request: which device is current, is its primary context active
//
// Prints `row NAME NANOSECONDS`, per pair of allocate and free, or per question. No kernel runs, only the calls are
// timed.
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
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

cudaStream_t NewStream() {
  cudaStream_t stream = nullptr;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

// A layer's requests come from a function of their own, so that call sites differ as they do in a framework.
template <int kSite>
[[gnu::noinline]] void* Request(std::size_t bytes, cudaStream_t stream) {
  void* block = nullptr;
  CHECK_CUDA(cudaMallocAsync(&block, bytes, stream));
  return block;
}

constexpr int kLayers = 64;
constexpr int kPairsOfIteration = 4 * kLayers;

// One iteration: per layer a kept activation and two temporaries; then the way back. Returns nanoseconds per pair.
double Iteration(cudaStream_t stream) {
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
  return Nanoseconds(Clock::now() - started) / kPairsOfIteration;
}

void Step(cudaStream_t stream, const std::string& label) {
  std::vector<double> iterations;
  const auto end = Clock::now() + std::chrono::seconds(2);
  while (Clock::now() < end || iterations.size() < 400) {
    iterations.push_back(Iteration(stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));  // a step ends so, outside the clock
  }
  Row(label + "_2_to_6", Median({iterations.begin() + 1, iterations.begin() + 6}));
  Row(label + "_last_200", Median({iterations.end() - 200, iterations.end()}));
}

void OnePair(std::size_t bytes, const char* label, cudaStream_t stream) {
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

void Pairs() {
  cudaStream_t stream = NewStream();
  OnePair(4096, "4KiB", stream);
  OnePair(std::size_t{1} << 20, "1MiB", stream);
  OnePair(std::size_t{64} << 20, "64MiB", stream);
  SynchronousPairs(std::size_t{1} << 20);
  CHECK_CUDA(cudaStreamDestroy(stream));
}

// Nanoseconds per pair that a thread sees while one thread for each of `streams` runs iterations at the same time: the
// mean, so that a convoy shows, over the iterations of all threads while all of them were at it.
double Together(const std::vector<cudaStream_t>& streams) {
  constexpr int kIterations = 400;
  constexpr int kWarmUp = 100;
  std::atomic<int> ready{0};
  std::atomic<bool> one_is_done{false};
  std::vector<double> sums(streams.size()), counts(streams.size());
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < streams.size(); ++t) {
    threads.emplace_back([&, t] {
      ++ready;
      while (ready.load() < static_cast<int>(streams.size())) std::this_thread::yield();
      for (int i = 0; i < kIterations && !one_is_done.load(std::memory_order_relaxed); ++i) {
        const double nanoseconds = Iteration(streams[t]);
        if (i < kWarmUp) continue;
        sums[t] += nanoseconds;
        ++counts[t];
      }
      one_is_done = true;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (cudaStream_t stream : streams) CHECK_CUDA(cudaStreamSynchronize(stream));
  double sum = 0, count = 0;
  for (std::size_t t = 0; t < streams.size(); ++t) {
    sum += sums[t];
    count += counts[t];
  }
  return sum / std::max(count, 1.0);
}

void Threads() {
  std::vector<cudaStream_t> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(NewStream());
  Row("threads_1", Together({streams[0]}));
  Row("threads_4_own_streams", Together(streams));
  Row("threads_4_one_stream", Together(std::vector<cudaStream_t>(4, streams[0])));
  for (cudaStream_t stream : streams) CHECK_CUDA(cudaStreamDestroy(stream));
}

template <typename Ask>
void Question(const char* label, Ask ask) {
  std::vector<double> batches;
  for (int batch = 0; batch < 20; ++batch) {
    constexpr int kTimes = 5000;
    const auto started = Clock::now();
    for (int i = 0; i < kTimes; ++i) ask();
    batches.push_back(Nanoseconds(Clock::now() - started) / kTimes);
  }
  Row(label, Median({batches.begin() + 2, batches.end()}));
}

void Asked() {
  OnePair(4096, "before_asked", NewStream());  // from the first request on the shim is at work
  Question("asked_current_device", [] {
    int device = 0;
    CHECK_CUDA(cudaGetDevice(&device));
  });
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  CHECK_CUDA(cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &entry, 12000, cudaEnableDefault, &found));
  const auto state = reinterpret_cast<CUresult (*)(CUdevice, unsigned*, int*)>(entry);
  Question("asked_primary_state", [&] {
    unsigned flags = 0;
    int active = 0;
    if (state(0, &flags, &active) != CUDA_SUCCESS || active == 0) std::exit(1);
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc == 2 ? argv[1] : "";
  CHECK_CUDA(cudaFree(nullptr));  // the context
  // As PyTorch's backend does: the pool keeps what it has, so that the native column is at its best.
  cudaMemPool_t pool = nullptr;
  CHECK_CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
  unsigned long long keep_all = ~0ULL;
  CHECK_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all));
  if (mode == "step") {
    Step(NewStream(), "step");
  } else if (mode == "default") {
    Step(nullptr, "default_step");
  } else if (mode == "pairs") {
    Pairs();
  } else if (mode == "threads") {
    Threads();
  } else if (mode == "asked") {
    Asked();
  } else {
    std::fprintf(stderr, "usage: microbench step|default|pairs|threads|asked\n");
    return 2;
  }
  return 0;
}
