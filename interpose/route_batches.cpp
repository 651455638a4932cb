// Batches of copies: the devices that act are given access to all served memory in them (at_owner.h), since a batch's
// copies may be of any devices and are one call. Any thread; costs a few loads in a process that sees one device.
#include "at_owner.h"

namespace stalloc::interpose {
namespace {

void OpenEnds(const CUdeviceptr* to, const CUdeviceptr* from, std::size_t count, CUstream stream) noexcept {
  if (!SeveralDevices() || to == nullptr || from == nullptr) return;
  for (std::size_t i = 0; i < count; ++i) {
    OpenToActing(to[i], stream);
    OpenToActing(from[i], stream);
  }
}

void OpenEnds(const CUDA_MEMCPY3D_BATCH_OP* operations, std::size_t count, CUstream stream) noexcept {
  if (!SeveralDevices() || operations == nullptr) return;
  for (std::size_t i = 0; i < count; ++i) {
    for (const CUmemcpy3DOperand* end : {&operations[i].src, &operations[i].dst})
      if (end->type == CU_MEMCPY_OPERAND_TYPE_POINTER) OpenToActing(end->op.ptr.ptr, stream);
  }
}

}  // namespace
}  // namespace stalloc::interpose

using namespace stalloc::interpose;

// CUDA 12.8 answered which copy was at fault.
#define STALLOC_BATCH_2(real)                                                                                        \
  CUresult real(CUdeviceptr* to, CUdeviceptr* from, std::size_t* sizes, std::size_t count,                           \
                CUmemcpyAttributes* attributes, std::size_t* firsts, std::size_t attribute_count, CUstream stream) { \
    OpenEnds(to, from, count, Order(stream, PointOf(Entry::k_##real).streams));                                      \
    return Forward<Entry::k_##real>(to, from, sizes, count, attributes, firsts, attribute_count, stream);            \
  }
#define STALLOC_BATCH_1(real)                                                                                          \
  CUresult real(CUdeviceptr* to, CUdeviceptr* from, std::size_t* sizes, std::size_t count,                             \
                CUmemcpyAttributes* attributes, std::size_t* firsts, std::size_t attribute_count, std::size_t* failed, \
                CUstream stream) {                                                                                     \
    OpenEnds(to, from, count, Order(stream, PointOf(Entry::k_##real).streams));                                        \
    return Forward<Entry::k_##real>(to, from, sizes, count, attributes, firsts, attribute_count, failed, stream);      \
  }
#define STALLOC_VOLUME_BATCH_2(real)                                                                                \
  CUresult real(std::size_t count, CUDA_MEMCPY3D_BATCH_OP* operations, unsigned long long flags, CUstream stream) { \
    OpenEnds(operations, count, Order(stream, PointOf(Entry::k_##real).streams));                                   \
    return Forward<Entry::k_##real>(count, operations, flags, stream);                                              \
  }
#define STALLOC_VOLUME_BATCH_1(real)                                                                                  \
  CUresult real(std::size_t count, CUDA_MEMCPY3D_BATCH_OP* operations, std::size_t* failed, unsigned long long flags, \
                CUstream stream) {                                                                                    \
    OpenEnds(operations, count, Order(stream, PointOf(Entry::k_##real).streams));                                     \
    return Forward<Entry::k_##real>(count, operations, failed, flags, stream);                                        \
  }

STALLOC_BATCH_1(cuMemcpyBatchAsync)
STALLOC_BATCH_1(cuMemcpyBatchAsync_ptsz)
STALLOC_BATCH_2(cuMemcpyBatchAsync_v2)
STALLOC_BATCH_2(cuMemcpyBatchAsync_v2_ptsz)
STALLOC_VOLUME_BATCH_1(cuMemcpy3DBatchAsync)
STALLOC_VOLUME_BATCH_1(cuMemcpy3DBatchAsync_ptsz)
STALLOC_VOLUME_BATCH_2(cuMemcpy3DBatchAsync_v2)
STALLOC_VOLUME_BATCH_2(cuMemcpy3DBatchAsync_v2_ptsz)
