// Memory without stream order.
#include <cstddef>
#include <cstring>

#include "runtime.h"

namespace stalloc::simcuda::cudart {
namespace {

constexpr unsigned kElementBytes = 4;

CUresult AllocatePitched(void** pointer, size_t* pitch, size_t width_bytes, size_t height) {
  return WithContext([&](const DriverFunctions& driver) {
    if (pointer == nullptr || pitch == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (width_bytes == 0 || height == 0) {
      *pointer = nullptr;
      return CUDA_SUCCESS;
    }
    CUdeviceptr address = 0;
    const CUresult result = driver.real_cuMemAllocPitch(&address, pitch, width_bytes, height, kElementBytes);
    *pointer = reinterpret_cast<void*>(address);
    return result;
  });
}

// call(driver, primary contexts of the two devices) with a context current.
template <typename Call>
cudaError_t WithTwoDevices(int first, int second, Call call) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    CUcontext contexts[2] = {};
    if (const CUresult error = driver.real_cuDevicePrimaryCtxRetain(&contexts[0], first)) return error;
    if (const CUresult error = driver.real_cuDevicePrimaryCtxRetain(&contexts[1], second)) return error;
    return call(driver, contexts[0], contexts[1]);
  }));
}

}  // namespace

// Zero bytes are granted without an address, as is what the driver refuses: the pointer is null then.
CUDART_EXPORT cudaError_t cudaMalloc(void** pointer, size_t size_bytes) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr address = 0;
    const CUresult result = size_bytes == 0 ? CUDA_SUCCESS : driver.real_cuMemAlloc(&address, size_bytes);
    *pointer = reinterpret_cast<void*>(address);
    return result;
  }));
}

CUDART_EXPORT cudaError_t cudaFree(void* pointer) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return pointer == nullptr ? CUDA_SUCCESS : driver.real_cuMemFree(Address(pointer));
  }));
}

CUDART_EXPORT cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width_bytes, size_t height) {
  return Finish(AllocatePitched(pointer, pitch, width_bytes, height));
}

CUDART_EXPORT cudaError_t cudaMalloc3D(cudaPitchedPtr* result, cudaExtent extent) {
  if (result == nullptr) return Finish(cudaErrorInvalidValue);
  cudaPitchedPtr pitched{};
  pitched.xsize = extent.width;
  pitched.ysize = extent.height;
  const CUresult error = AllocatePitched(&pitched.ptr, &pitched.pitch, extent.width, extent.height * extent.depth);
  if (error == CUDA_SUCCESS) *result = pitched;
  return Finish(error);
}

CUDART_EXPORT cudaError_t cudaMallocManaged(void** pointer, size_t size_bytes, unsigned flags) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr address = 0;
    const CUresult result = driver.real_cuMemAllocManaged(&address, size_bytes, flags);
    if (result == CUDA_SUCCESS) *pointer = reinterpret_cast<void*>(address);
    return result;
  }));
}

CUDART_EXPORT cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return Finish(
      WithContext([&](const DriverFunctions& driver) { return driver.real_cuMemGetInfo(free_bytes, total_bytes); }));
}

CUDART_EXPORT cudaError_t cudaHostAlloc(void** pointer, size_t size_bytes, unsigned flags) {
  return Finish(WithContext(
      [&](const DriverFunctions& driver) { return driver.real_cuMemHostAlloc(pointer, size_bytes, flags); }));
}

CUDART_EXPORT cudaError_t cudaMallocHost(void** pointer, size_t size_bytes) {
  return Finish(
      WithContext([&](const DriverFunctions& driver) { return driver.real_cuMemHostAlloc(pointer, size_bytes, 0); }));
}

CUDART_EXPORT cudaError_t cudaFreeHost(void* pointer) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return pointer == nullptr ? CUDA_SUCCESS : driver.real_cuMemFreeHost(pointer);
  }));
}

CUDART_EXPORT cudaError_t cudaHostRegister(void* pointer, size_t size_bytes, unsigned flags) {
  return Finish(WithContext(
      [&](const DriverFunctions& driver) { return driver.real_cuMemHostRegister(pointer, size_bytes, flags); }));
}

CUDART_EXPORT cudaError_t cudaHostUnregister(void* pointer) {
  return Finish(WithContext([&](const DriverFunctions& driver) { return driver.real_cuMemHostUnregister(pointer); }));
}

CUDART_EXPORT cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* pointer, unsigned flags) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    CUdeviceptr address = 0;
    const CUresult result = driver.real_cuMemHostGetDevicePointer(&address, pointer, flags);
    if (result == CUDA_SUCCESS) *device_pointer = reinterpret_cast<void*>(address);
    return result;
  }));
}

CUDART_EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    if (attributes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    unsigned type = 0, managed = 0;
    int device = 0;
    void* device_pointer = nullptr;
    void* host_pointer = nullptr;
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                    CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void* values[] = {&type, &managed, &device, &device_pointer, &host_pointer};
    if (const CUresult error = driver.real_cuPointerGetAttributes(5, wanted, values, Address(pointer))) return error;
    // What CUDA 13 has beyond this is reserved, and CUDA 12 has no memory for it.
    std::memset(attributes, 0, offsetof(cudaPointerAttributes, reserved));
    if (managed != 0)
      attributes->type = cudaMemoryTypeManaged;
    else if (type == CU_MEMORYTYPE_DEVICE)
      attributes->type = cudaMemoryTypeDevice;
    else
      attributes->type = type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    const bool known = attributes->type != cudaMemoryTypeUnregistered;
    attributes->device = known ? device : cudaInvalidDeviceId;
    attributes->devicePointer = device_pointer;
    attributes->hostPointer = known ? host_pointer : const_cast<void*>(pointer);
    return CUDA_SUCCESS;
  }));
}

// The runtime has these in one version only: stream 0 is the legacy stream.
CUDART_EXPORT cudaError_t cudaMemcpyPeer(void* destination, int destination_device, const void* source,
                                         int source_device, size_t size_bytes) {
  return WithTwoDevices(destination_device, source_device,
                        [&](const DriverFunctions& driver, CUcontext to, CUcontext from) {
                          return driver.real_cuMemcpyPeer(Address(destination), to, Address(source), from, size_bytes);
                        });
}

CUDART_EXPORT cudaError_t cudaMemcpyPeerAsync(void* destination, int destination_device, const void* source,
                                              int source_device, size_t size_bytes, cudaStream_t stream) {
  return WithTwoDevices(
      destination_device, source_device, [&](const DriverFunctions& driver, CUcontext to, CUcontext from) {
        return driver.real_cuMemcpyPeerAsync(Address(destination), to, Address(source), from, size_bytes, stream);
      });
}

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle));

CUDART_EXPORT cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuIpcGetMemHandle(reinterpret_cast<CUipcMemHandle*>(handle), Address(pointer));
  }));
}

CUDART_EXPORT cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned flags) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    CUipcMemHandle driver_handle;
    std::memcpy(&driver_handle, &handle, sizeof(handle));
    CUdeviceptr address = 0;
    const CUresult result = driver.real_cuIpcOpenMemHandle(&address, driver_handle, flags);
    if (result == CUDA_SUCCESS) *pointer = reinterpret_cast<void*>(address);
    return result;
  }));
}

CUDART_EXPORT cudaError_t cudaIpcCloseMemHandle(void* pointer) {
  return Finish(
      WithContext([&](const DriverFunctions& driver) { return driver.real_cuIpcCloseMemHandle(Address(pointer)); }));
}

static_assert(sizeof(cudaIpcEventHandle_t) == sizeof(CUipcEventHandle));

CUDART_EXPORT cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuIpcGetEventHandle(reinterpret_cast<CUipcEventHandle*>(handle), event);
  }));
}

CUDART_EXPORT cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    CUipcEventHandle driver_handle;
    std::memcpy(&driver_handle, &handle, sizeof(handle));
    return driver.real_cuIpcOpenEventHandle(event, driver_handle);
  }));
}

}  // namespace stalloc::simcuda::cudart
