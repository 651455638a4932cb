#include "runtime.h"

#include <mutex>

namespace stalloc::simcuda::cudart {
namespace {

constexpr int kMostDevices = 32;

// Of a process without a driver, whose calls all fail alike.
thread_local constinit cudaError_t own_last_error = cudaSuccess;
thread_local constinit cudaError_t* last_error_slot = nullptr;
thread_local constinit int thread_device = 0;

// The primary contexts, each retained once for the process until a reset.
struct Primary {
  CUcontext context = nullptr;
  bool retained = false;
};

std::mutex primary_mutex;
Primary primaries[kMostDevices];

// Under primary_mutex.
CUresult Retain(const Driver& driver, int device) {
  if (device < 0 || device >= kMostDevices) return CUDA_ERROR_INVALID_DEVICE;
  Primary& primary = primaries[device];
  if (primary.retained) return CUDA_SUCCESS;
  const CUresult result = driver.legacy.real_cuDevicePrimaryCtxRetain(&primary.context, device);
  primary.retained = result == CUDA_SUCCESS;
  return result;
}

cudaError_t& LastErrorSlot() {
  if (last_error_slot == nullptr) {
    const Driver* driver = LoadedDriver();
    last_error_slot = driver != nullptr && driver->last_error != nullptr
                          ? reinterpret_cast<cudaError_t*>(driver->last_error())
                          : &own_last_error;
  }
  return *last_error_slot;
}

}  // namespace

cudaError_t Finish(cudaError_t error) {
  if (error != cudaSuccess) LastErrorSlot() = error;
  return error;
}

cudaError_t LastError(bool clear) {
  cudaError_t& slot = LastErrorSlot();
  const cudaError_t error = slot;
  if (clear) slot = cudaSuccess;
  return error;
}

CUresult EnsureContext(const Driver& driver) {
  CUcontext current = nullptr;
  if (const CUresult error = driver.legacy.real_cuCtxGetCurrent(&current)) return error;
  const std::lock_guard lock(primary_mutex);
  int device = thread_device;
  if (current != nullptr) {
    // Nothing to do, unless it is a primary context that a reset has closed.
    for (device = 0; device < kMostDevices && primaries[device].context != current; ++device) {
    }
    if (device == kMostDevices || primaries[device].retained) return CUDA_SUCCESS;
  }
  if (const CUresult error = Retain(driver, device)) return error;
  return driver.legacy.real_cuCtxSetCurrent(primaries[device].context);
}

CUresult ChooseDevice(const Driver& driver, int device) {
  const std::lock_guard lock(primary_mutex);
  if (const CUresult error = Retain(driver, device)) return error;
  thread_device = device;
  return driver.legacy.real_cuCtxSetCurrent(primaries[device].context);
}

int ChosenDevice(const Driver& driver) {
  CUdevice device = 0;
  return driver.legacy.real_cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : thread_device;
}

CUresult ResetDevice(const Driver& driver) {
  const int device = ChosenDevice(driver);
  const std::lock_guard lock(primary_mutex);
  primaries[device].retained = false;
  LastErrorSlot() = cudaSuccess;
  return driver.legacy.real_cuDevicePrimaryCtxReset(device);
}

}  // namespace stalloc::simcuda::cudart
