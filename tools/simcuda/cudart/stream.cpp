// Streams and events, except what takes a stream whose 0 has two meanings.
#include "runtime.h"

namespace stalloc::simcuda::cudart {

CUDART_EXPORT cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return Finish(WithContext([&](const DriverFunctions& driver) { return driver.real_cuStreamCreate(stream, 0); }));
}

CUDART_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return Finish(WithContext([&](const DriverFunctions& driver) { return driver.real_cuStreamCreate(stream, flags); }));
}

CUDART_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return Finish(WithContext(
      [&](const DriverFunctions& driver) { return driver.real_cuStreamCreateWithPriority(stream, flags, priority); }));
}

CUDART_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return Finish(WithContext([&](const DriverFunctions& driver) { return driver.real_cuStreamDestroy(stream); }));
}

CUDART_EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode));
  }));
}

CUDART_EXPORT cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return Finish(WithContext([&](const DriverFunctions& driver) { return driver.real_cuEventCreate(event, 0); }));
}

CUDART_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return Finish(WithContext([&](const DriverFunctions& driver) { return driver.real_cuEventCreate(event, flags); }));
}

CUDART_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return Finish(WithContext([&](const DriverFunctions& driver) { return driver.real_cuEventDestroy(event); }));
}

CUDART_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
  return Finish(WithContext([&](const DriverFunctions& driver) { return driver.real_cuEventQuery(event); }));
}

CUDART_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return Finish(WithContext([&](const DriverFunctions& driver) { return driver.real_cuEventSynchronize(event); }));
}

CUDART_EXPORT cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return Finish(WithContext(
      [&](const DriverFunctions& driver) { return driver.real_cuEventElapsedTime(milliseconds, start, end); }));
}

}  // namespace stalloc::simcuda::cudart
