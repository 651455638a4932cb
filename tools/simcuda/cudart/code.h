// Kernels and variables of the program, as its compiler registers them, and their counterparts in the driver.
//
// Registration runs while libraries are loaded, for tens of thousands of kernels, and only takes notes. The driver is
// told of a binary when the first of its kernels or variables is used. Any thread.
#pragma once

#include "runtime.h"

namespace stalloc::simcuda::cudart {

// The driver's kernel of a host function or of a cudaKernel_t. CUDA_ERROR_INVALID_HANDLE if nobody registered it, which
// the runtime calls cudaErrorInvalidDeviceFunction.
CUresult FindKernel(const Driver& driver, const void* function, CUkernel* kernel);

// Where a registered variable lies in the current context.
CUresult FindSymbol(const Driver& driver, const void* symbol, CUdeviceptr* address, size_t* size_bytes);

// body(driver's functions, kernel) with a context current. FinishLaunch makes the runtime's error of the driver's.
template <typename Body>
cudaError_t WithKernel(const void* function, Body&& body) {
  bool unknown = false;
  const CUresult result = WithDriver([&](const Driver& driver) {
    if (const CUresult error = EnsureContext(driver)) return error;
    CUkernel kernel = nullptr;
    if (const CUresult error = FindKernel(driver, function, &kernel)) {
      unknown = error == CUDA_ERROR_INVALID_HANDLE;
      return error;
    }
    return body(FunctionsOf(driver), kernel);
  });
  return Finish(unknown ? cudaErrorInvalidDeviceFunction : FromDriver(result));
}

// body(driver's functions, address) for [offset, offset + size) of a variable.
template <typename Body>
cudaError_t WithSymbol(const void* symbol, size_t offset_bytes, size_t size_bytes, Body&& body) {
  bool unknown = false;
  const CUresult result = WithDriver([&](const Driver& driver) {
    if (const CUresult error = EnsureContext(driver)) return error;
    CUdeviceptr address = 0;
    size_t variable_bytes = 0;
    if (const CUresult error = FindSymbol(driver, symbol, &address, &variable_bytes)) {
      unknown = error == CUDA_ERROR_INVALID_HANDLE;
      return error;
    }
    if (offset_bytes > variable_bytes || size_bytes > variable_bytes - offset_bytes) return CUDA_ERROR_INVALID_VALUE;
    return body(FunctionsOf(driver), address + offset_bytes, variable_bytes);
  });
  return Finish(unknown ? cudaErrorInvalidSymbol : FromDriver(result));
}

static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute));

inline CUlaunchConfig DriverConfig(const cudaLaunchConfig_t& config) {
  CUlaunchConfig launch{};
  launch.gridDimX = config.gridDim.x;
  launch.gridDimY = config.gridDim.y;
  launch.gridDimZ = config.gridDim.z;
  launch.blockDimX = config.blockDim.x;
  launch.blockDimY = config.blockDim.y;
  launch.blockDimZ = config.blockDim.z;
  launch.sharedMemBytes = static_cast<unsigned>(config.dynamicSmemBytes);
  launch.hStream = config.stream;
  launch.attrs = reinterpret_cast<CUlaunchAttribute*>(config.attrs);
  launch.numAttrs = config.numAttrs;
  return launch;
}

}  // namespace stalloc::simcuda::cudart
