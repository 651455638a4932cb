// Copies between host memory and another device's served memory, and copies of rows and volumes: made where the memory
// is (at_owner.h). Any thread.
//
// Of rows and volumes between two devices' memory, and of arrays, nothing is known to be better than the driver's word:
// those go on as they are.
#include "at_owner.h"

namespace stalloc::interpose {
namespace {

bool IsMemory(CUmemorytype type) { return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED; }

// The served memory of a copy of rows or volumes whose other end is the same device's or the host's; otherwise 0.
template <typename Description>
CUdeviceptr OneDevicesMemory(const Description* copy) noexcept {
  if (copy == nullptr || copy->srcMemoryType == CU_MEMORYTYPE_ARRAY || copy->dstMemoryType == CU_MEMORYTYPE_ARRAY)
    return 0;
  const CUdeviceptr to = IsMemory(copy->dstMemoryType) ? copy->dstDevice : 0;
  const CUdeviceptr from = IsMemory(copy->srcMemoryType) ? copy->srcDevice : 0;
  CUcontext context = nullptr;
  const int to_device = runtime::OwnerOf(to, &context), from_device = runtime::OwnerOf(from, &context);
  if (to_device >= 0 && from_device >= 0 && to_device != from_device) return 0;
  return to_device >= 0 ? to : from;
}

template <Entry kEntry, typename Description, typename Call, typename... Stream>
CUresult CopyRows(const Description* copy, HostWaits waits, Call call, CUstream stream,
                  Stream... stream_argument) noexcept {
  const CUdeviceptr memory = SeveralDevicesServed() ? OneDevicesMemory(copy) : 0;
  return ForwardToOwner<kEntry>(memory, stream, waits, call, copy, stream_argument...);
}

}  // namespace
}  // namespace stalloc::interpose

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
#define STALLOC_COPY_ROWS(real, asynchronous, Description)                                                     \
  CUresult real(const Description* copy) {                                                                     \
    return CopyRows<Entry::k_##real>(                                                                          \
        copy, HostWaits::kYes, [&](CUstream there) { return STALLOC_CALL_DRIVER(asynchronous, copy, there); }, \
        nullptr);                                                                                              \
  }
#define STALLOC_COPY_ROWS_ASYNC(real, asynchronous, Description)                                                      \
  CUresult real(const Description* copy, CUstream stream) {                                                           \
    return CopyRows<Entry::k_##real>(                                                                                 \
        copy, HostWaits::kNo, [&](CUstream there) { return STALLOC_CALL_DRIVER(asynchronous, copy, there); }, stream, \
        stream);                                                                                                      \
  }

STALLOC_TO_HOST(cuMemcpyDtoH_v2)
STALLOC_TO_HOST(cuMemcpyDtoH_v2_ptds)
STALLOC_TO_HOST_ASYNC(cuMemcpyDtoHAsync_v2)
STALLOC_TO_HOST_ASYNC(cuMemcpyDtoHAsync_v2_ptsz)
STALLOC_FROM_HOST(cuMemcpyHtoD_v2)
STALLOC_FROM_HOST(cuMemcpyHtoD_v2_ptds)
STALLOC_FROM_HOST_ASYNC(cuMemcpyHtoDAsync_v2)
STALLOC_FROM_HOST_ASYNC(cuMemcpyHtoDAsync_v2_ptsz)
STALLOC_COPY_ROWS(cuMemcpy2D_v2, cuMemcpy2DAsync, CUDA_MEMCPY2D)
STALLOC_COPY_ROWS(cuMemcpy2D_v2_ptds, cuMemcpy2DAsync, CUDA_MEMCPY2D)
STALLOC_COPY_ROWS(cuMemcpy2DUnaligned_v2, cuMemcpy2DAsync, CUDA_MEMCPY2D)
STALLOC_COPY_ROWS(cuMemcpy2DUnaligned_v2_ptds, cuMemcpy2DAsync, CUDA_MEMCPY2D)
STALLOC_COPY_ROWS(cuMemcpy3D_v2, cuMemcpy3DAsync, CUDA_MEMCPY3D)
STALLOC_COPY_ROWS(cuMemcpy3D_v2_ptds, cuMemcpy3DAsync, CUDA_MEMCPY3D)
STALLOC_COPY_ROWS_ASYNC(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, CUDA_MEMCPY2D)
STALLOC_COPY_ROWS_ASYNC(cuMemcpy2DAsync_v2_ptsz, cuMemcpy2DAsync, CUDA_MEMCPY2D)
STALLOC_COPY_ROWS_ASYNC(cuMemcpy3DAsync_v2, cuMemcpy3DAsync, CUDA_MEMCPY3D)
STALLOC_COPY_ROWS_ASYNC(cuMemcpy3DAsync_v2_ptsz, cuMemcpy3DAsync, CUDA_MEMCPY3D)
