// Copies and fills of rows. Compiled twice: see stream_order.cpp.
#include "runtime.h"

namespace stalloc::simcuda::cudart {
namespace {

// The direction is the addresses' own.
CUDA_MEMCPY2D Rows(void* destination, size_t destination_pitch, const void* source, size_t source_pitch,
                   size_t width_bytes, size_t height) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.dstDevice = Address(destination);
  copy.dstPitch = destination_pitch;
  copy.srcDevice = Address(source);
  copy.srcPitch = source_pitch;
  copy.WidthInBytes = width_bytes;
  copy.Height = height;
  return copy;
}

}  // namespace

CUDART_EXPORT cudaError_t cudaMemcpy2D(void* destination, size_t destination_pitch, const void* source,
                                       size_t source_pitch, size_t width_bytes, size_t height, cudaMemcpyKind) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    if (width_bytes > destination_pitch || width_bytes > source_pitch) return CUDA_ERROR_INVALID_VALUE;
    const CUDA_MEMCPY2D copy = Rows(destination, destination_pitch, source, source_pitch, width_bytes, height);
    return driver.real_cuMemcpy2DUnaligned(&copy);
  }));
}

CUDART_EXPORT cudaError_t cudaMemcpy2DAsync(void* destination, size_t destination_pitch, const void* source,
                                            size_t source_pitch, size_t width_bytes, size_t height, cudaMemcpyKind,
                                            cudaStream_t stream) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    if (width_bytes > destination_pitch || width_bytes > source_pitch) return CUDA_ERROR_INVALID_VALUE;
    const CUDA_MEMCPY2D copy = Rows(destination, destination_pitch, source, source_pitch, width_bytes, height);
    return driver.real_cuMemcpy2DAsync(&copy, stream);
  }));
}

CUDART_EXPORT cudaError_t cudaMemset2D(void* pointer, size_t pitch, int value, size_t width_bytes, size_t height) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuMemsetD2D8(Address(pointer), pitch, static_cast<unsigned char>(value), width_bytes, height);
  }));
}

CUDART_EXPORT cudaError_t cudaMemset2DAsync(void* pointer, size_t pitch, int value, size_t width_bytes, size_t height,
                                            cudaStream_t stream) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuMemsetD2D8Async(Address(pointer), pitch, static_cast<unsigned char>(value), width_bytes,
                                         height, stream);
  }));
}

}  // namespace stalloc::simcuda::cudart
