// Copies between host memory and another device's served memory: made where the memory is (at_owner.h). Any thread.
#include "at_owner.h"

using namespace stalloc::interpose;

#define STALLOC_TO_HOST(real)                                                                    \
  CUresult real(void* destination, CUdeviceptr source, std::size_t size_bytes) {                 \
    return ForwardToOwner<Entry::k_##real>(                                                      \
        source, nullptr, HostWaits::kYes,                                                        \
        [&](CUstream there) {                                                                    \
          return STALLOC_CALL_DRIVER(cuMemcpyDtoHAsync, destination, source, size_bytes, there); \
        },                                                                                       \
        destination, source, size_bytes);                                                        \
  }
#define STALLOC_TO_HOST_ASYNC(real)                                                               \
  CUresult real(void* destination, CUdeviceptr source, std::size_t size_bytes, CUstream stream) { \
    return ForwardToOwner<Entry::k_##real>(                                                       \
        source, stream, HostWaits::kNo,                                                           \
        [&](CUstream there) {                                                                     \
          return STALLOC_CALL_DRIVER(cuMemcpyDtoHAsync, destination, source, size_bytes, there);  \
        },                                                                                        \
        destination, source, size_bytes, stream);                                                 \
  }
#define STALLOC_FROM_HOST(real)                                                                  \
  CUresult real(CUdeviceptr destination, const void* source, std::size_t size_bytes) {           \
    return ForwardToOwner<Entry::k_##real>(                                                      \
        destination, nullptr, HostWaits::kYes,                                                   \
        [&](CUstream there) {                                                                    \
          return STALLOC_CALL_DRIVER(cuMemcpyHtoDAsync, destination, source, size_bytes, there); \
        },                                                                                       \
        destination, source, size_bytes);                                                        \
  }
#define STALLOC_FROM_HOST_ASYNC(real)                                                                   \
  CUresult real(CUdeviceptr destination, const void* source, std::size_t size_bytes, CUstream stream) { \
    return ForwardToOwner<Entry::k_##real>(                                                             \
        destination, stream, HostWaits::kNo,                                                            \
        [&](CUstream there) {                                                                           \
          return STALLOC_CALL_DRIVER(cuMemcpyHtoDAsync, destination, source, size_bytes, there);        \
        },                                                                                              \
        destination, source, size_bytes, stream);                                                       \
  }

STALLOC_TO_HOST(cuMemcpyDtoH_v2)
STALLOC_TO_HOST(cuMemcpyDtoH_v2_ptds)
STALLOC_TO_HOST_ASYNC(cuMemcpyDtoHAsync_v2)
STALLOC_TO_HOST_ASYNC(cuMemcpyDtoHAsync_v2_ptsz)
STALLOC_FROM_HOST(cuMemcpyHtoD_v2)
STALLOC_FROM_HOST(cuMemcpyHtoD_v2_ptds)
STALLOC_FROM_HOST_ASYNC(cuMemcpyHtoDAsync_v2)
STALLOC_FROM_HOST_ASYNC(cuMemcpyHtoDAsync_v2_ptsz)
