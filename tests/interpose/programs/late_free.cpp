// Frees from destructors that run after main, those of a library included, and a thread that frees as it ends.
#include <cuda_runtime_api.h>

#include <thread>

#include "check.h"

namespace {

struct Holder {
  void* pointer = nullptr;
  ~Holder() {
    if (pointer != nullptr) CHECK(cudaFree(pointer) == cudaSuccess);
  }
};

Holder global;
thread_local Holder local;

__attribute__((destructor(101))) void VeryLate() {
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 1000) == cudaSuccess && cudaFree(p) == cudaSuccess);
}

}  // namespace

int main() {
  static Holder of_main;
  CHECK(cudaMalloc(&global.pointer, 1000) == cudaSuccess);
  CHECK(cudaMalloc(&of_main.pointer, 1000) == cudaSuccess);
  std::thread([] { CHECK(cudaMalloc(&local.pointer, 1000) == cudaSuccess); }).join();
  return 0;
}
