// Many threads whose first CUDA call comes at the same moment, and that free each other's blocks.
#include <cuda_runtime_api.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "check.h"

int main() {
  constexpr int kThreads = 16;
  constexpr int kRounds = 200;
  std::atomic<int> waiting{kThreads};
  std::mutex mutex;
  std::vector<void*> shared;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      --waiting;
      while (waiting != 0) {
      }
      for (int round = 0; round < kRounds; ++round) {
        void* mine = nullptr;
        const bool async = (i + round) % 2 == 0;
        CHECK((async ? cudaMallocAsync(&mine, 1000, nullptr) : cudaMalloc(&mine, 1000)) == cudaSuccess);
        void* other = nullptr;
        {
          const std::lock_guard lock(mutex);
          shared.push_back(mine);
          std::swap(shared.front(), shared.back());
          other = shared.back();
          shared.pop_back();
        }
        CHECK(cudaFree(other) == cudaSuccess);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(shared.empty());
  return 0;
}
