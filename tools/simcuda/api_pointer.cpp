// Entry points that say what an address is.
#include <cstring>

#include "call.h"

namespace stalloc::simcuda {
namespace {

// What is known of an address; `known` false: no memory of CUDA's.
struct AddressInfo {
  bool known = false;
  bool device_memory = false;
  bool managed = false;
  bool pool = false;
  bool legacy_ipc = false;
  bool virtual_memory = false;  // mapped by the program itself
  bool rdma = false;            // other devices than GPUs may be given it
  CUdeviceptr begin = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t buffer_id = 0;
  int device = 0;
  CUcontext context = nullptr;
  CUmemoryPool pool_handle = nullptr;
  bool mapped = false;
};

AddressInfo Describe(Machine& machine, CUdeviceptr address) {
  AddressInfo info;
  CUdeviceptr begin = 0;
  std::uint64_t host_begin = 0;
  if (const Block* block = machine.blocks.FindContaining(address, &begin)) {
    info.known = info.device_memory = info.mapped = true;
    info.begin = begin;
    info.size_bytes = block->size_bytes;
    info.buffer_id = block->id;
    info.device = block->device;
    info.context = block->context != nullptr ? block->context->handle : nullptr;
    info.pool = block->kind == Block::Kind::kPool || block->kind == Block::Kind::kGraph;
    info.pool_handle = block->pool != nullptr ? block->pool->handle : nullptr;
    info.legacy_ipc = info.rdma = block->kind == Block::Kind::kMalloc;
  } else if (const Mapping* mapping = machine.space.Find(address, &begin);
             mapping != nullptr && mapping->kind == Mapping::Kind::kVirtualMemory) {
    info.known = info.device_memory = info.mapped = info.virtual_memory = true;
    info.begin = begin;
    info.size_bytes = mapping->size_bytes;
    info.buffer_id = begin / kPageBytes;
    info.device = mapping->physical->device->index();
    const auto handle = machine.handle_of.find(mapping->physical.get());
    info.rdma = handle != machine.handle_of.end() &&
                machine.virtual_handles[handle->second].properties.allocFlags.gpuDirectRDMACapable != 0;
  } else if (const HostRange* host = machine.FindHostRange(address, &host_begin)) {
    info.known = info.mapped = true;
    info.begin = host_begin;
    info.size_bytes = host->size_bytes;
    info.buffer_id = host_begin;
    info.managed = host->managed;
    info.device = host->context->device;
    info.context = host->context->handle;
  }
  return info;
}

template <typename Value>
CUresult Put(void* data, Value value) {
  std::memcpy(data, &value, sizeof(Value));
  return CUDA_SUCCESS;
}

CUresult AttributeOf(const AddressInfo& info, CUdeviceptr address, CUpointer_attribute attribute, void* data) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return info.known ? Put(data, static_cast<unsigned>(info.managed)) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return Put(data, info.mapped);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return Put(data, info.legacy_ipc);
    default:
      break;
  }
  if (!info.known) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return Put(data, info.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return Put(data,
                 static_cast<unsigned>(info.device_memory || info.managed ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return Put(data, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (info.device_memory) return CUDA_ERROR_INVALID_VALUE;
      return Put(data, reinterpret_cast<void*>(address));
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return Put(data, static_cast<unsigned long long>(info.buffer_id));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return Put(data, info.device);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return Put(data, info.begin);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return Put(data, static_cast<std::size_t>(info.size_bytes));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return Put(data, info.pool_handle);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return Put(data, 0u);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return Put(data, 0ull);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return Put(data, info.rdma);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return Put(data, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// How many bytes an attribute's value has, to clear it where the address is unknown.
std::size_t SizeOf(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return 4;
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return 1;
    default:
      return 8;
  }
}

}  // namespace

SIMCUDA_EXPORT CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  return Enter(SIMCUDA_ENTRY(cuPointerGetAttribute), [&](Call& call) {
    if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return AttributeOf(Describe(call.machine, address), address, attribute, data);
  });
}

// Unlike the singular form this succeeds on unknown addresses and answers zeros.
SIMCUDA_EXPORT CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                               CUdeviceptr address) {
  return Enter(SIMCUDA_ENTRY(cuPointerGetAttributes), [&](Call& call) {
    if (attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const AddressInfo info = Describe(call.machine, address);
    for (unsigned i = 0; i < count; ++i) {
      if (AttributeOf(info, address, attributes[i], data[i]) == CUDA_SUCCESS) continue;
      std::memset(data[i], 0, SizeOf(attributes[i]));
      if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) Put(data[i], -2);
    }
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  return Enter(SIMCUDA_ENTRY(cuPointerSetAttribute), [&](Call& call) {
    if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
    const AddressInfo info = Describe(call.machine, address);
    if (!info.known) return CUDA_ERROR_INVALID_VALUE;
    return info.virtual_memory ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
  });
}

}  // namespace stalloc::simcuda
