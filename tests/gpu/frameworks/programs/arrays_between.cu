// Copies between an array of device 0 and memory of device 1, with no peer access enabled, by device 0: in one piece,
// by the driver's own functions, and in rows. What they answer and what they leave, summed up on the host.
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <vector>

#include "check.h"
#include "need_two_devices.h"

namespace {

constexpr std::size_t kWidth = 512, kHeight = 40, kBytes = kWidth * kHeight;

// cudaArray_t and CUarray are one.
template <typename Function>
Function* Driver(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}

void Report(const char* name, int status, const void* block) {
  std::vector<std::uint8_t> host(2 * kBytes);
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK_CUDA(cudaSetDevice(1));
  CHECK_CUDA(cudaMemcpy(host.data(), block, host.size(), cudaMemcpyDeviceToHost));
  CHECK_CUDA(cudaSetDevice(0));
  std::uint64_t sum = 0;
  for (const std::uint8_t byte : host) {
    sum = sum * 1099511628211ULL + byte;
  }
  std::printf("result %s %d,%llu\n", name, status, static_cast<unsigned long long>(sum));
}

void Fresh(void* block, int round) {
  std::vector<std::uint8_t> host(2 * kBytes);
  for (std::size_t i = 0; i < host.size(); ++i) {
    host[i] = static_cast<std::uint8_t>(i * 7 + i / kWidth + static_cast<std::size_t>(round));
  }
  CHECK_CUDA(cudaSetDevice(1));
  CHECK_CUDA(cudaMemcpy(block, host.data(), host.size(), cudaMemcpyHostToDevice));
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK_CUDA(cudaSetDevice(0));
}

}  // namespace

int main() {
  NeedTwoDevices();
  void* elsewhere = nullptr;
  void* here = nullptr;
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc bytes = cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindUnsigned);
  CHECK_CUDA(cudaSetDevice(1));
  CHECK_CUDA(cudaMalloc(&elsewhere, 2 * kBytes));
  CHECK_CUDA(cudaSetDevice(0));
  CHECK_CUDA(cudaMalloc(&here, kBytes));  // a device that has memory of its own
  CHECK_CUDA(cudaMallocArray(&array, &bytes, kWidth, kHeight));

  Fresh(elsewhere, 0);
  const auto block = reinterpret_cast<CUdeviceptr>(elsewhere);
  const auto driver_array = reinterpret_cast<CUarray>(array);
  int status = Driver<decltype(cuMemcpyDtoA)>("cuMemcpyDtoA_v2")(driver_array, 0, block, kBytes);
  Report("array_from_memory", status, elsewhere);
  status = Driver<decltype(cuMemcpyAtoD)>("cuMemcpyAtoD_v2")(block + kBytes, driver_array, kWidth, kBytes - kWidth);
  Report("memory_from_array", status, elsewhere);

  Fresh(elsewhere, 1);
  char* const second = static_cast<char*>(elsewhere) + kBytes;
  status = cudaMemcpy2DToArray(array, 0, 0, elsewhere, kWidth, kWidth, kHeight, cudaMemcpyDeviceToDevice);
  Report("array_from_rows", status, elsewhere);
  status = cudaMemcpy2DFromArray(second, kWidth, array, 16, 1, kWidth - 16, kHeight - 1, cudaMemcpyDeviceToDevice);
  Report("rows_from_array", status, elsewhere);

  CHECK_CUDA(cudaFreeArray(array));
  CHECK_CUDA(cudaFree(here));
  CHECK_CUDA(cudaFree(elsewhere));
  return 0;
}
