// The program's own exceptions, across a thread and a library boundary, with the shim's unwinder in the process.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <thread>

#include "check.h"

namespace {

struct Guard {
  int* count;
  ~Guard() { ++*count; }
};

[[gnu::noinline]] void Deep(int depth, int* unwound) {
  const Guard guard{unwound};
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 1000) == cudaSuccess && cudaFree(p) == cudaSuccess);
  if (depth == 0) throw std::runtime_error("deep");
  Deep(depth - 1, unwound);
}

void Catch() {
  int unwound = 0;
  std::string what;
  try {
    Deep(20, &unwound);
  } catch (const std::exception& e) {
    what = e.what();
  }
  CHECK(what == "deep" && unwound == 21);
}

}  // namespace

int main() {
  Catch();
  std::thread(Catch).join();
  std::exception_ptr kept;
  try {
    (void)std::string().at(1);  // thrown inside the C++ library
  } catch (...) {
    kept = std::current_exception();
  }
  CHECK(kept != nullptr);
  return 0;
}
