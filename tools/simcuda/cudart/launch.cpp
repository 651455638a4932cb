// Kernel launches. Compiled twice: see stream_order.cpp.
#include <vector>

#include "code.h"

namespace stalloc::simcuda::cudart {
namespace {

bool IsLaunchable(dim3 grid, dim3 block) {
  constexpr unsigned long long kMaxThreads = 1024;
  const unsigned long long threads = 1ull * block.x * block.y * block.z;
  return 1ull * grid.x * grid.y * grid.z != 0 && threads != 0 && threads <= kMaxThreads && grid.y <= 65535 &&
         grid.z <= 65535;
}

CUresult LaunchDriver(const DriverFunctions& driver, CUkernel kernel, dim3 grid, dim3 block, void** arguments,
                      size_t shared_bytes, cudaStream_t stream) {
  return driver.real_cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), grid.x, grid.y, grid.z, block.x, block.y,
                                    block.z, static_cast<unsigned>(shared_bytes), stream, arguments, nullptr);
}

}  // namespace

CUDART_EXPORT cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                           size_t shared_bytes, cudaStream_t stream) {
  if (!IsLaunchable(grid, block)) return Finish(cudaErrorInvalidConfiguration);
  return WithKernel(function, [&](const DriverFunctions& driver, CUkernel kernel) {
    return LaunchDriver(driver, kernel, grid, block, arguments, shared_bytes, stream);
  });
}

CUDART_EXPORT cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                                      size_t shared_bytes, cudaStream_t stream) {
  if (!IsLaunchable(grid, block)) return Finish(cudaErrorInvalidConfiguration);
  return WithKernel(function, [&](const DriverFunctions& driver, CUkernel kernel) {
    return driver.real_cuLaunchCooperativeKernel(reinterpret_cast<CUfunction>(kernel), grid.x, grid.y, grid.z, block.x,
                                                 block.y, block.z, static_cast<unsigned>(shared_bytes), stream,
                                                 arguments);
  });
}

CUDART_EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                              void** arguments) {
  if (config == nullptr) return Finish(cudaErrorInvalidValue);
  if (!IsLaunchable(config->gridDim, config->blockDim)) return Finish(cudaErrorInvalidConfiguration);
  return WithKernel(function, [&](const DriverFunctions& driver, CUkernel kernel) {
    const CUlaunchConfig launch = DriverConfig(*config);
    return driver.real_cuLaunchKernelEx(&launch, reinterpret_cast<CUfunction>(kernel), arguments, nullptr);
  });
}

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define CUDART_LAUNCH __cudaLaunchKernel_ptsz
#else
#define CUDART_LAUNCH __cudaLaunchKernel
#endif

// What nvcc 13 makes of a launch, with the handle from __cudaGetKernel.
CUDART_EXPORT cudaError_t CUDART_LAUNCH(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                        size_t shared_bytes, cudaStream_t stream) {
  if (!IsLaunchable(grid, block)) return Finish(cudaErrorInvalidConfiguration);
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return LaunchDriver(driver, reinterpret_cast<CUkernel>(kernel), grid, block, arguments, shared_bytes, stream);
  }));
}

#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM
namespace {

struct Configuration {
  dim3 grid, block;
  size_t shared_bytes;
  void* stream;
};

// Between <<<...>>> and the kernel's stub.
std::vector<Configuration>& Configurations() {
  thread_local std::vector<Configuration> configurations;
  return configurations;
}

}  // namespace

CUDART_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void* stream) {
  Configurations().push_back({grid, block, shared_bytes, stream});
  return 0;
}

CUDART_EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  std::vector<Configuration>& configurations = Configurations();
  if (configurations.empty()) return Finish(cudaErrorMissingConfiguration);
  const Configuration& last = configurations.back();
  *grid = last.grid;
  *block = last.block;
  *shared_bytes = last.shared_bytes;
  *static_cast<void**>(stream) = last.stream;
  configurations.pop_back();
  return cudaSuccess;
}
#endif

}  // namespace stalloc::simcuda::cudart
