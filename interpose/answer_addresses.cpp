// What the program asks about an address: for a served block the answer is about that block, not about the mapping
// beneath it that many blocks share.
//
// Any thread. Attributes that describe the memory itself (its type and device, whether it can be exported) are the
// driver's truth about the mapping.
#include "process_life.h"
#include "real_symbols.h"
#include "runtime/service/program_needs.h"
#include "runtime/service/service.h"

namespace stalloc::interpose {
namespace {

struct Block {
  CUdeviceptr base = 0;
  std::size_t size_bytes = 0;
  std::uint64_t buffer_id = 0;
};

bool FindBlock(CUdeviceptr address, Block* block) noexcept {
  return ServingAlready() && runtime::FindBlock(address, &block->base, &block->size_bytes, &block->buffer_id);
}

// What may be named of a block: addresses and sizes of such ranges are in pages of the host.
std::size_t WholePages(std::size_t size_bytes) noexcept {
  constexpr std::size_t kHostPage = 4096;
  return (size_bytes + kHostPage - 1) / kHostPage * kHostPage;
}

bool Owned(CUdeviceptr address) noexcept { return ServingAlready() && runtime::Owns(address); }

bool IsPerBlock(CUpointer_attribute attribute) noexcept {
  return attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR || attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE ||
         attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID;
}

// `data` has the type that cuda.h gives for the attribute.
void WritePerBlock(CUpointer_attribute attribute, const Block& block, void* data) noexcept {
  if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) *static_cast<CUdeviceptr*>(data) = block.base;
  if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE) *static_cast<std::size_t*>(data) = block.size_bytes;
  if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID) *static_cast<unsigned long long*>(data) = block.buffer_id;
}

// Memory that was freed is still mapped, and the driver would describe it. It is asked of an address at which there
// cannot be any instead, so that its answers are those for memory that it does not know.
constexpr CUdeviceptr kNoMemory = 1;

// Where such an answer repeats the address that was asked about.
void Readdress(CUpointer_attribute attribute, CUdeviceptr address, void* data) noexcept {
  if (attribute != CU_POINTER_ATTRIBUTE_DEVICE_POINTER && attribute != CU_POINTER_ATTRIBUTE_HOST_POINTER) return;
  if (*static_cast<CUdeviceptr*>(data) == kNoMemory) *static_cast<CUdeviceptr*>(data) = address;
}

CUresult OfUnknownMemory(void* data, CUpointer_attribute attribute, CUdeviceptr address) noexcept {
  const CUresult result = Forward<Entry::k_cuPointerGetAttribute>(data, attribute, kNoMemory);
  if (result == CUDA_SUCCESS) Readdress(attribute, address, data);
  return result;
}

}  // namespace
}  // namespace stalloc::interpose

using namespace stalloc::interpose;

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* size_bytes, CUdeviceptr address) {
  Block block;
  if (FindBlock(address, &block)) {
    if (base != nullptr) *base = block.base;
    if (size_bytes != nullptr) *size_bytes = block.size_bytes;
    return CUDA_SUCCESS;
  }
  if (Owned(address)) return CUDA_ERROR_NOT_FOUND;  // mapped, but no allocation of the program's
  return Forward<Entry::k_cuMemGetAddressRange_v2>(base, size_bytes, address);
}

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  Block block;
  if (!Owned(address)) return Forward<Entry::k_cuPointerGetAttribute>(data, attribute, address);
  if (!FindBlock(address, &block)) return OfUnknownMemory(data, attribute, address);
  if (data == nullptr || !IsPerBlock(attribute))
    return Forward<Entry::k_cuPointerGetAttribute>(data, attribute, address);
  WritePerBlock(attribute, block, data);
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** data, CUdeviceptr address) {
  Block block;
  const bool owned = Owned(address);
  const bool live = owned && FindBlock(address, &block);
  const CUresult result =
      Forward<Entry::k_cuPointerGetAttributes>(count, attributes, data, owned && !live ? kNoMemory : address);
  if (result != CUDA_SUCCESS || !owned) return result;
  if (!live) {
    for (unsigned int i = 0; i < count; ++i) Readdress(attributes[i], address, data[i]);
    return result;
  }
  for (unsigned int i = 0; i < count; ++i)
    if (IsPerBlock(attributes[i])) WritePerBlock(attributes[i], block, data[i]);
  return result;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  // A legacy handle covers the whole allocation beneath an address and opens at its start, so the other process would
  // look at other blocks' bytes. This is the driver's own answer for memory that cannot be shared in this way.
  if (!Owned(address)) return Forward<Entry::k_cuIpcGetMemHandle>(handle, address);
  Block block;
  if (FindBlock(address, &block)) stalloc::runtime::NoteNeed(stalloc::runtime::Need::kIpc);
  return CUDA_ERROR_INVALID_VALUE;
}

// The range must lie in one block: beside it are others, and memory that is no allocation of the program's.
CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, std::size_t size_bytes,
                                       CUmemRangeHandleType type, unsigned long long flags) {
  Block block;
  if (Owned(address) &&
      (!FindBlock(address, &block) || size_bytes > block.base + WholePages(block.size_bytes) - address))
    return CUDA_ERROR_INVALID_VALUE;
  return Forward<Entry::k_cuMemGetHandleForAddressRange>(handle, address, size_bytes, type, flags);
}
