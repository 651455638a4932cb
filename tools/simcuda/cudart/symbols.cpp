// Variables of device code: where they lie, and copies to and from them. Compiled twice: see stream_order.cpp.
#include "code.h"

namespace stalloc::simcuda::cudart {

#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM
CUDART_EXPORT cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  return WithSymbol(symbol, 0, 0, [&](const DriverFunctions&, CUdeviceptr found, size_t) {
    if (address == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *address = reinterpret_cast<void*>(found);
    return CUDA_SUCCESS;
  });
}

CUDART_EXPORT cudaError_t cudaGetSymbolSize(size_t* size_bytes, const void* symbol) {
  return WithSymbol(symbol, 0, 0, [&](const DriverFunctions&, CUdeviceptr, size_t found_bytes) {
    if (size_bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *size_bytes = found_bytes;
    return CUDA_SUCCESS;
  });
}
#endif

// The direction is the addresses' own.
CUDART_EXPORT cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* source, size_t size_bytes,
                                             size_t offset_bytes, cudaMemcpyKind) {
  return WithSymbol(symbol, offset_bytes, size_bytes, [&](const DriverFunctions& driver, CUdeviceptr to, size_t) {
    return driver.real_cuMemcpy(to, Address(source), size_bytes);
  });
}

CUDART_EXPORT cudaError_t cudaMemcpyFromSymbol(void* destination, const void* symbol, size_t size_bytes,
                                               size_t offset_bytes, cudaMemcpyKind) {
  return WithSymbol(symbol, offset_bytes, size_bytes, [&](const DriverFunctions& driver, CUdeviceptr from, size_t) {
    return driver.real_cuMemcpy(Address(destination), from, size_bytes);
  });
}

CUDART_EXPORT cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* source, size_t size_bytes,
                                                  size_t offset_bytes, cudaMemcpyKind, cudaStream_t stream) {
  return WithSymbol(symbol, offset_bytes, size_bytes, [&](const DriverFunctions& driver, CUdeviceptr to, size_t) {
    return driver.real_cuMemcpyAsync(to, Address(source), size_bytes, stream);
  });
}

CUDART_EXPORT cudaError_t cudaMemcpyFromSymbolAsync(void* destination, const void* symbol, size_t size_bytes,
                                                    size_t offset_bytes, cudaMemcpyKind, cudaStream_t stream) {
  return WithSymbol(symbol, offset_bytes, size_bytes, [&](const DriverFunctions& driver, CUdeviceptr from, size_t) {
    return driver.real_cuMemcpyAsync(Address(destination), from, size_bytes, stream);
  });
}

}  // namespace stalloc::simcuda::cudart
