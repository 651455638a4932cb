// Devices, versions, errors.
#include "../error_names.h"
#include "runtime.h"

namespace stalloc::simcuda::cudart {

CUDART_EXPORT cudaError_t cudaGetLastError() { return LastError(true); }
CUDART_EXPORT cudaError_t cudaPeekAtLastError() { return LastError(false); }

// The numbers and sentences are the driver's; the names are the runtime's own.
CUDART_EXPORT const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidSymbol:
      return "invalid device symbol";
    case cudaErrorMissingConfiguration:
      return "__global__ function call is not configured";
    case cudaErrorInvalidDeviceFunction:
      return "invalid device function";
    default:
      break;
  }
  const char* sentence = stalloc::simcuda::ErrorSentence(static_cast<CUresult>(error));
  return sentence != nullptr ? sentence : "unrecognized error code";
}

CUDART_EXPORT const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define CUDART_ERROR(name) \
  case name:               \
    return #name;
    CUDART_ERROR(cudaSuccess)
    CUDART_ERROR(cudaErrorInvalidValue)
    CUDART_ERROR(cudaErrorMemoryAllocation)
    CUDART_ERROR(cudaErrorInitializationError)
    CUDART_ERROR(cudaErrorCudartUnloading)
    CUDART_ERROR(cudaErrorInvalidConfiguration)
    CUDART_ERROR(cudaErrorInvalidSymbol)
    CUDART_ERROR(cudaErrorMissingConfiguration)
    CUDART_ERROR(cudaErrorInvalidDeviceFunction)
    CUDART_ERROR(cudaErrorInsufficientDriver)
    CUDART_ERROR(cudaErrorNoDevice)
    CUDART_ERROR(cudaErrorInvalidDevice)
    CUDART_ERROR(cudaErrorDeviceUninitialized)
    CUDART_ERROR(cudaErrorInvalidResourceHandle)
    CUDART_ERROR(cudaErrorIllegalState)
    CUDART_ERROR(cudaErrorSymbolNotFound)
    CUDART_ERROR(cudaErrorNotReady)
    CUDART_ERROR(cudaErrorIllegalAddress)
    CUDART_ERROR(cudaErrorPeerAccessUnsupported)
    CUDART_ERROR(cudaErrorPeerAccessAlreadyEnabled)
    CUDART_ERROR(cudaErrorPeerAccessNotEnabled)
    CUDART_ERROR(cudaErrorContextIsDestroyed)
    CUDART_ERROR(cudaErrorLaunchFailure)
    CUDART_ERROR(cudaErrorGraphExecUpdateFailure)
    CUDART_ERROR(cudaErrorHostMemoryAlreadyRegistered)
    CUDART_ERROR(cudaErrorHostMemoryNotRegistered)
    CUDART_ERROR(cudaErrorNotPermitted)
    CUDART_ERROR(cudaErrorNotSupported)
    CUDART_ERROR(cudaErrorStreamCaptureUnsupported)
    CUDART_ERROR(cudaErrorStreamCaptureInvalidated)
    CUDART_ERROR(cudaErrorStreamCaptureMerge)
    CUDART_ERROR(cudaErrorStreamCaptureUnmatched)
    CUDART_ERROR(cudaErrorStreamCaptureUnjoined)
    CUDART_ERROR(cudaErrorStreamCaptureIsolation)
    CUDART_ERROR(cudaErrorStreamCaptureImplicit)
    CUDART_ERROR(cudaErrorCapturedEvent)
    CUDART_ERROR(cudaErrorStreamCaptureWrongThread)
    CUDART_ERROR(cudaErrorUnknown)
#undef CUDART_ERROR
    default:
      return "unrecognized error code";
  }
}

CUDART_EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return Finish(cudaErrorInvalidValue);
  *version = kRuntimeVersion;
  return cudaSuccess;
}

// 0 where there is no driver.
CUDART_EXPORT cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return Finish(cudaErrorInvalidValue);
  *version = 0;
  const Driver* driver = LoadedDriver();
  return driver == nullptr ? cudaSuccess : Finish(driver->legacy.real_cuDriverGetVersion(version));
}

CUDART_EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  return Finish(WithDriver([&](const Driver& driver) {
    const CUresult result = driver.legacy.real_cuDeviceGetCount(count);
    return result == CUDA_SUCCESS && *count == 0 ? CUDA_ERROR_NO_DEVICE : result;
  }));
}

CUDART_EXPORT cudaError_t cudaGetDevice(int* device) {
  return Finish(WithDriver([&](const Driver& driver) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = ChosenDevice(driver);
    return CUDA_SUCCESS;
  }));
}

CUDART_EXPORT cudaError_t cudaSetDevice(int device) {
  return Finish(WithDriver([&](const Driver& driver) { return ChooseDevice(driver, device); }));
}

CUDART_EXPORT cudaError_t cudaDeviceReset() {
  return Finish(WithDriver([](const Driver& driver) { return ResetDevice(driver); }));
}

CUDART_EXPORT cudaError_t cudaDeviceSynchronize() {
  return Finish(WithContext([](const DriverFunctions& driver) { return driver.real_cuCtxSynchronize(); }));
}

CUDART_EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return Finish(WithDriver([&](const Driver& driver) {
    return driver.legacy.real_cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), device);
  }));
}

CUDART_EXPORT cudaError_t cudaDeviceGetPCIBusId(char* text, int capacity, int device) {
  return Finish(
      WithDriver([&](const Driver& driver) { return driver.legacy.real_cuDeviceGetPCIBusId(text, capacity, device); }));
}

CUDART_EXPORT cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return Finish(
      WithDriver([&](const Driver& driver) { return driver.legacy.real_cuDeviceCanAccessPeer(can, device, peer); }));
}

namespace {

// call(peer's primary context) with a context current.
template <typename Call>
cudaError_t WithPeer(int peer, Call call) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    CUcontext context = nullptr;
    if (const CUresult error = driver.real_cuDevicePrimaryCtxRetain(&context, peer)) return error;
    return call(driver, context);
  }));
}

}  // namespace

CUDART_EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return WithPeer(peer, [&](const DriverFunctions& driver, CUcontext context) {
    return driver.real_cuCtxEnablePeerAccess(context, flags);
  });
}

CUDART_EXPORT cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return WithPeer(peer, [&](const DriverFunctions& driver, CUcontext context) {
    return driver.real_cuCtxDisablePeerAccess(context);
  });
}

CUDART_EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return Finish(WithContext(
      [&](const DriverFunctions& driver) { return driver.real_cuCtxGetStreamPriorityRange(least, greatest); }));
}

}  // namespace stalloc::simcuda::cudart
