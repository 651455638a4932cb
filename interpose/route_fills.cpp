// Fills of another device's served memory: made where the memory is (at_owner.h). The forms without a stream do not
// wait for the device either. Any thread.
#include "at_owner.h"

using namespace stalloc::interpose;

// `asynchronous` is the form that takes a stream.
#define STALLOC_FILL(real, asynchronous, Value)                                                                        \
  CUresult real(CUdeviceptr memory, Value value, std::size_t count) {                                                  \
    return ForwardToOwner<Entry::k_##real>(                                                                            \
        memory, nullptr, HostWaits::kNo,                                                                               \
        [&](CUstream there) { return STALLOC_CALL_DRIVER(asynchronous, memory, value, count, there); }, memory, value, \
        count);                                                                                                        \
  }
#define STALLOC_FILL_ASYNC(real, asynchronous, Value)                                                                  \
  CUresult real(CUdeviceptr memory, Value value, std::size_t count, CUstream stream) {                                 \
    return ForwardToOwner<Entry::k_##real>(                                                                            \
        memory, stream, HostWaits::kNo,                                                                                \
        [&](CUstream there) { return STALLOC_CALL_DRIVER(asynchronous, memory, value, count, there); }, memory, value, \
        count, stream);                                                                                                \
  }
#define STALLOC_FILL_ROWS(real, asynchronous, Value)                                                                   \
  CUresult real(CUdeviceptr memory, std::size_t pitch, Value value, std::size_t width, std::size_t height) {           \
    return ForwardToOwner<Entry::k_##real>(                                                                            \
        memory, nullptr, HostWaits::kNo,                                                                               \
        [&](CUstream there) { return STALLOC_CALL_DRIVER(asynchronous, memory, pitch, value, width, height, there); }, \
        memory, pitch, value, width, height);                                                                          \
  }
#define STALLOC_FILL_ROWS_ASYNC(real, asynchronous, Value)                                                             \
  CUresult real(CUdeviceptr memory, std::size_t pitch, Value value, std::size_t width, std::size_t height,             \
                CUstream stream) {                                                                                     \
    return ForwardToOwner<Entry::k_##real>(                                                                            \
        memory, stream, HostWaits::kNo,                                                                                \
        [&](CUstream there) { return STALLOC_CALL_DRIVER(asynchronous, memory, pitch, value, width, height, there); }, \
        memory, pitch, value, width, height, stream);                                                                  \
  }

STALLOC_FILL(cuMemsetD8_v2, cuMemsetD8Async, unsigned char)
STALLOC_FILL(cuMemsetD8_v2_ptds, cuMemsetD8Async, unsigned char)
STALLOC_FILL(cuMemsetD16_v2, cuMemsetD16Async, unsigned short)
STALLOC_FILL(cuMemsetD16_v2_ptds, cuMemsetD16Async, unsigned short)
STALLOC_FILL(cuMemsetD32_v2, cuMemsetD32Async, unsigned int)
STALLOC_FILL(cuMemsetD32_v2_ptds, cuMemsetD32Async, unsigned int)
STALLOC_FILL_ASYNC(cuMemsetD8Async, cuMemsetD8Async, unsigned char)
STALLOC_FILL_ASYNC(cuMemsetD8Async_ptsz, cuMemsetD8Async, unsigned char)
STALLOC_FILL_ASYNC(cuMemsetD16Async, cuMemsetD16Async, unsigned short)
STALLOC_FILL_ASYNC(cuMemsetD16Async_ptsz, cuMemsetD16Async, unsigned short)
STALLOC_FILL_ASYNC(cuMemsetD32Async, cuMemsetD32Async, unsigned int)
STALLOC_FILL_ASYNC(cuMemsetD32Async_ptsz, cuMemsetD32Async, unsigned int)

STALLOC_FILL_ROWS(cuMemsetD2D8_v2, cuMemsetD2D8Async, unsigned char)
STALLOC_FILL_ROWS(cuMemsetD2D8_v2_ptds, cuMemsetD2D8Async, unsigned char)
STALLOC_FILL_ROWS(cuMemsetD2D16_v2, cuMemsetD2D16Async, unsigned short)
STALLOC_FILL_ROWS(cuMemsetD2D16_v2_ptds, cuMemsetD2D16Async, unsigned short)
STALLOC_FILL_ROWS(cuMemsetD2D32_v2, cuMemsetD2D32Async, unsigned int)
STALLOC_FILL_ROWS(cuMemsetD2D32_v2_ptds, cuMemsetD2D32Async, unsigned int)
STALLOC_FILL_ROWS_ASYNC(cuMemsetD2D8Async, cuMemsetD2D8Async, unsigned char)
STALLOC_FILL_ROWS_ASYNC(cuMemsetD2D8Async_ptsz, cuMemsetD2D8Async, unsigned char)
STALLOC_FILL_ROWS_ASYNC(cuMemsetD2D16Async, cuMemsetD2D16Async, unsigned short)
STALLOC_FILL_ROWS_ASYNC(cuMemsetD2D16Async_ptsz, cuMemsetD2D16Async, unsigned short)
STALLOC_FILL_ROWS_ASYNC(cuMemsetD2D32Async, cuMemsetD2D32Async, unsigned int)
STALLOC_FILL_ROWS_ASYNC(cuMemsetD2D32Async_ptsz, cuMemsetD2D32Async, unsigned int)
