// Kernels' attributes, occupancy, libraries of code that a program loads by itself, the profiler's switch.
#include <cstring>

#include "code.h"

namespace stalloc::simcuda::cudart {
namespace {

CUfunction AsFunction(CUkernel kernel) { return reinterpret_cast<CUfunction>(kernel); }
CUlibrary AsLibrary(cudaLibrary_t library) { return reinterpret_cast<CUlibrary>(library); }

cudaError_t CountBlocks(int* blocks, const void* function, int threads, size_t shared_bytes, unsigned flags) {
  return WithKernel(function, [&](const DriverFunctions& driver, CUkernel kernel) {
    return driver.real_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, AsFunction(kernel), threads,
                                                                            shared_bytes, flags);
  });
}

}  // namespace

CUDART_EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return WithKernel(function, [&](const DriverFunctions& driver, CUkernel kernel) {
    if (attributes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::memset(attributes, 0, sizeof(*attributes));
    CUdevice device = 0;
    if (const CUresult error = driver.real_cuCtxGetDevice(&device)) return error;
    const auto attribute = [&](CUfunction_attribute which) {
      int value = 0;
      driver.real_cuKernelGetAttribute(&value, which, kernel, device);
      return value;
    };
    attributes->sharedSizeBytes = static_cast<size_t>(attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
    attributes->constSizeBytes = static_cast<size_t>(attribute(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES));
    attributes->localSizeBytes = static_cast<size_t>(attribute(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
    attributes->maxThreadsPerBlock = attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    attributes->numRegs = attribute(CU_FUNC_ATTRIBUTE_NUM_REGS);
    attributes->ptxVersion = attribute(CU_FUNC_ATTRIBUTE_PTX_VERSION);
    attributes->binaryVersion = attribute(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
    attributes->cacheModeCA = attribute(CU_FUNC_ATTRIBUTE_CACHE_MODE_CA);
    attributes->maxDynamicSharedSizeBytes = attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    attributes->preferredShmemCarveout = attribute(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
    attributes->nonPortableClusterSizeAllowed = attribute(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
    return CUDA_SUCCESS;
  });
}

CUDART_EXPORT cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return WithKernel(function, [&](const DriverFunctions& driver, CUkernel kernel) {
    CUdevice device = 0;
    if (const CUresult error = driver.real_cuCtxGetDevice(&device)) return error;
    return driver.real_cuKernelSetAttribute(static_cast<CUfunction_attribute>(attribute), value, kernel, device);
  });
}

CUDART_EXPORT cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute, int value,
                                                          int device) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuKernelSetAttribute(static_cast<CUfunction_attribute>(attribute), value,
                                            reinterpret_cast<CUkernel>(kernel), device);
  }));
}

CUDART_EXPORT cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache config) {
  return WithKernel(function, [&](const DriverFunctions& driver, CUkernel kernel) {
    return driver.real_cuKernelSetCacheConfig(kernel, static_cast<CUfunc_cache>(config), 0);
  });
}

CUDART_EXPORT cudaError_t cudaFuncGetName(const char** name, const void* function) {
  return WithKernel(function, [&](const DriverFunctions& driver, CUkernel kernel) {
    return driver.real_cuKernelGetName(name, kernel);
  });
}

CUDART_EXPORT cudaError_t cudaGetFuncBySymbol(cudaFunction_t* found, const void* function) {
  return WithKernel(function, [&](const DriverFunctions& driver, CUkernel kernel) {
    return driver.real_cuKernelGetFunction(found, kernel);
  });
}

CUDART_EXPORT cudaError_t cudaGetKernel(cudaKernel_t* found, const void* function) {
  return WithKernel(function, [&](const DriverFunctions&, CUkernel kernel) {
    if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *found = reinterpret_cast<cudaKernel_t>(kernel);
    return CUDA_SUCCESS;
  });
}

CUDART_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                                        size_t shared_bytes) {
  return CountBlocks(blocks, function, threads, shared_bytes, 0);
}

CUDART_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function,
                                                                                 int threads, size_t shared_bytes,
                                                                                 unsigned flags) {
  return CountBlocks(blocks, function, threads, shared_bytes, flags);
}

CUDART_EXPORT cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function, int blocks,
                                                                    int threads) {
  return WithKernel(function, [&](const DriverFunctions& driver, CUkernel kernel) {
    return driver.real_cuOccupancyAvailableDynamicSMemPerBlock(bytes, AsFunction(kernel), blocks, threads);
  });
}

CUDART_EXPORT cudaError_t cudaOccupancyMaxPotentialClusterSize(int* blocks, const void* function,
                                                               const cudaLaunchConfig_t* config) {
  if (config == nullptr) return Finish(cudaErrorInvalidValue);
  return WithKernel(function, [&](const DriverFunctions& driver, CUkernel kernel) {
    const CUlaunchConfig launch = DriverConfig(*config);
    return driver.real_cuOccupancyMaxPotentialClusterSize(blocks, AsFunction(kernel), &launch);
  });
}

CUDART_EXPORT cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                                         const cudaLaunchConfig_t* config) {
  if (config == nullptr) return Finish(cudaErrorInvalidValue);
  return WithKernel(function, [&](const DriverFunctions& driver, CUkernel kernel) {
    const CUlaunchConfig launch = DriverConfig(*config);
    return driver.real_cuOccupancyMaxActiveClusters(clusters, AsFunction(kernel), &launch);
  });
}

CUDART_EXPORT cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* image, cudaJitOption*, void**,
                                              unsigned, cudaLibraryOption*, void**, unsigned) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuLibraryLoadData(reinterpret_cast<CUlibrary*>(library), image, nullptr, nullptr, 0, nullptr,
                                         nullptr, 0);
  }));
}

CUDART_EXPORT cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* path, cudaJitOption*, void**,
                                                  unsigned, cudaLibraryOption*, void**, unsigned) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuLibraryLoadFromFile(reinterpret_cast<CUlibrary*>(library), path, nullptr, nullptr, 0, nullptr,
                                             nullptr, 0);
  }));
}

CUDART_EXPORT cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return Finish(
      WithContext([&](const DriverFunctions& driver) { return driver.real_cuLibraryUnload(AsLibrary(library)); }));
}

CUDART_EXPORT cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuLibraryGetKernel(reinterpret_cast<CUkernel*>(kernel), AsLibrary(library), name);
  }));
}

CUDART_EXPORT cudaError_t cudaLibraryGetKernelCount(unsigned* count, cudaLibrary_t library) {
  return Finish(WithContext(
      [&](const DriverFunctions& driver) { return driver.real_cuLibraryGetKernelCount(count, AsLibrary(library)); }));
}

CUDART_EXPORT cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned count, cudaLibrary_t library) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuLibraryEnumerateKernels(reinterpret_cast<CUkernel*>(kernels), count, AsLibrary(library));
  }));
}

CUDART_EXPORT cudaError_t cudaLibraryGetGlobal(void** address, size_t* size_bytes, cudaLibrary_t library,
                                               const char* name) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuLibraryGetGlobal(reinterpret_cast<CUdeviceptr*>(address), size_bytes, AsLibrary(library),
                                          name);
  }));
}

CUDART_EXPORT cudaError_t cudaLibraryGetManaged(void** address, size_t* size_bytes, cudaLibrary_t library,
                                                const char* name) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuLibraryGetManaged(reinterpret_cast<CUdeviceptr*>(address), size_bytes, AsLibrary(library),
                                           name);
  }));
}

CUDART_EXPORT cudaError_t cudaLibraryGetUnifiedFunction(void** function, cudaLibrary_t library, const char* name) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuLibraryGetUnifiedFunction(function, AsLibrary(library), name);
  }));
}

// No profiler listens.
CUDART_EXPORT cudaError_t cudaProfilerStart() {
  return Finish(WithContext([](const DriverFunctions&) { return CUDA_SUCCESS; }));
}

CUDART_EXPORT cudaError_t cudaProfilerStop() {
  return Finish(WithContext([](const DriverFunctions&) { return CUDA_SUCCESS; }));
}

}  // namespace stalloc::simcuda::cudart
