// Which device is current and which primary contexts are active, asked between everything that changes it, on two
// devices: the answers are the driver's own. With the argument "served": and asked again they cost the driver nothing.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <simcuda/extensions.h>

#include <cstring>
#include <functional>
#include <thread>

#include "check.h"

namespace {

int CurrentDevice() {
  int device = -1;
  CHECK(cudaGetDevice(&device) == cudaSuccess);
  return device;
}

struct Primary {
  unsigned flags;
  int active;
  bool operator==(const Primary&) const = default;
};

Primary StateOf(CUdevice device) {
  Primary state = {99, 99};
  CHECK(cuDevicePrimaryCtxGetState(device, &state.flags, &state.active) == CUDA_SUCCESS);
  return state;
}

// Asked twice, so that the second answer may be remembered.
void Is(int device) {
  CHECK(CurrentDevice() == device);
  CHECK(CurrentDevice() == device);
}

void Is(CUdevice device, Primary state) {
  CHECK(StateOf(device) == state);
  CHECK(StateOf(device) == state);
}

CUcontext MakeOn(CUdevice device) {
  CUcontext context = nullptr;
  CHECK(cuCtxCreate(&context, nullptr, 0, device) == CUDA_SUCCESS);
  return context;
}

void AnotherContextBecomesCurrent() {
  CHECK(cudaSetDevice(0) == cudaSuccess);
  Is(0);
  CHECK(cudaSetDevice(1) == cudaSuccess);
  Is(1);
  CUcontext of_one = nullptr, popped = nullptr;
  CHECK(cuCtxGetCurrent(&of_one) == CUDA_SUCCESS);
  CHECK(cudaSetDevice(0) == cudaSuccess && cuCtxSetCurrent(of_one) == CUDA_SUCCESS);
  Is(1);
  CUcontext of_zero = MakeOn(0);
  Is(0);
  CHECK(cuCtxPushCurrent(of_one) == CUDA_SUCCESS);
  Is(1);
  CHECK(cuCtxPopCurrent(&popped) == CUDA_SUCCESS && popped == of_one);
  Is(0);
  std::thread([] {  // what one thread knows is not another's
    Is(0);
    CHECK(cudaSetDevice(1) == cudaSuccess);
    Is(1);
  })
      .join();
  Is(0);
  CHECK(cuCtxDestroy(of_zero) == CUDA_SUCCESS);
  Is(1);
  CHECK(cudaGetDevice(nullptr) != cudaSuccess);
  CHECK(cudaGetLastError() != cudaSuccess && cudaGetLastError() == cudaSuccess);
}

// Handles are used again: a context may have that of one that was on the other device.
void HandlesThatComeBack() {
  for (int round = 0; round < 16; ++round) {
    CUcontext context = MakeOn(round % 2);
    Is(round % 2);
    std::thread([&] { CHECK(cuCtxDestroy(context) == CUDA_SUCCESS); }).join();
    CUcontext popped = nullptr;
    CHECK(cuCtxPopCurrent(&popped) == CUDA_SUCCESS);
    context = MakeOn((round + 1) % 2);
    Is((round + 1) % 2);
    CHECK(cuCtxDestroy(context) == CUDA_SUCCESS);
  }
}

void PrimariesThatEndAndBegin() {
  CUcontext context = nullptr;
  CHECK(cudaSetDevice(1) == cudaSuccess && cudaDeviceReset() == cudaSuccess);
  Is(1, {0, 0});
  Is(1);
  CHECK(cuDevicePrimaryCtxRetain(&context, 1) == CUDA_SUCCESS);
  Is(1, {0, 1});
  CHECK(cuDevicePrimaryCtxRelease(1) == CUDA_SUCCESS);
  Is(1, {0, 0});
  CHECK(cuDevicePrimaryCtxSetFlags(1, CU_CTX_SCHED_YIELD) == CUDA_SUCCESS);
  Is(1, {CU_CTX_SCHED_YIELD, 0});
  CHECK(cuDevicePrimaryCtxRetain(&context, 1) == CUDA_SUCCESS);
  Is(1, {CU_CTX_SCHED_YIELD, 1});
  CHECK(cuDevicePrimaryCtxSetFlags(1, CU_CTX_SCHED_SPIN) == CUDA_SUCCESS);
  Is(1, {CU_CTX_SCHED_SPIN, 1});
  Is(0, {0, 1});  // the other device's is its own
  std::thread([] { CHECK(cuDevicePrimaryCtxReset(1) == CUDA_SUCCESS); }).join();
  CHECK(StateOf(1).active == 0);
  CHECK(cudaSetDevice(0) == cudaSuccess);
  Is(0);
  CHECK(cuDevicePrimaryCtxGetState(0, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  Primary state = {};
  CHECK(cuDevicePrimaryCtxGetState(7, &state.flags, &state.active) == CUDA_ERROR_INVALID_DEVICE);
}

// What the driver is asked while `ask` runs a hundred times, apart from the first.
std::uint64_t Calls(const char* function, const std::function<void()>& ask) {
  ask();
  const std::uint64_t before = simcudaCallCount(function);
  for (int i = 0; i < 100; ++i) ask();
  return simcudaCallCount(function) - before;
}

}  // namespace

int main(int count, char** arguments) {
  const bool served = count > 1 && std::strcmp(arguments[1], "served") == 0;
  void* block = nullptr;
  CHECK(cudaMallocAsync(&block, 1 << 20, nullptr) == cudaSuccess);
  CHECK(cudaFreeAsync(block, nullptr) == cudaSuccess);
  CHECK(Calls("cuCtxGetDevice", CurrentDevice) == (served ? 0 : 100));
  CHECK(Calls("cuDevicePrimaryCtxGetState", [] { StateOf(0); }) == (served ? 0 : 100));
  AnotherContextBecomesCurrent();
  HandlesThatComeBack();
  PrimariesThatEndAndBegin();
  CHECK(Calls("cuCtxGetDevice", CurrentDevice) == (served ? 0 : 100));
  return 0;
}
