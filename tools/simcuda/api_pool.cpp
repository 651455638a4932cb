// Entry points of memory pools.
#include "call.h"

namespace stalloc::simcuda {
namespace {

// body(pool) on the pool of a handle.
template <typename Body>
CUresult EnterPool(EntryPoint entry, CUmemoryPool handle, Body&& body) {
  return Enter(entry, [&](Call& call) {
    const std::shared_ptr<Pool> pool = call.machine.pools.Find(handle);
    return pool == nullptr ? CUDA_ERROR_INVALID_VALUE : body(call, *pool);
  });
}

// body(device) on the device of an index, to which `pool` is an out-parameter.
template <typename Body>
CUresult EnterDevice(EntryPoint entry, CUdevice index, Body&& body) {
  return Enter(entry, [&](Call& call) {
    Device* device = call.machine.FindDevice(index);
    return device == nullptr ? CUDA_ERROR_INVALID_DEVICE : body(call, *device);
  });
}

template <typename Body>
CUresult EnterLocation(EntryPoint entry, const CUmemLocation* location, Body&& body) {
  return Enter(entry, [&](Call& call) {
    if (location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    Device* device = call.machine.FindDevice(location->id);
    return device == nullptr ? CUDA_ERROR_INVALID_DEVICE : body(call, *device);
  });
}

}  // namespace

SIMCUDA_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice index) {
  return EnterDevice(SIMCUDA_ENTRY(cuDeviceGetDefaultMemPool), index, [&](Call&, Device& device) {
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *pool = device.default_pool->handle;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice index) {
  return EnterDevice(SIMCUDA_ENTRY(cuDeviceGetMemPool), index, [&](Call&, Device& device) {
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *pool = device.current_pool->handle;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuDeviceSetMemPool(CUdevice index, CUmemoryPool handle) {
  return EnterDevice(SIMCUDA_ENTRY(cuDeviceSetMemPool), index, [&](Call& call, Device& device) {
    const std::shared_ptr<Pool> pool = call.machine.pools.Find(handle);
    if (pool == nullptr || pool->device() != index) return CUDA_ERROR_INVALID_VALUE;
    device.current_pool = pool;
    return CUDA_SUCCESS;
  });
}

// The same by location, as CUDA 13 has it.
SIMCUDA_EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType) {
  return EnterLocation(SIMCUDA_ENTRY(cuMemGetDefaultMemPool), location, [&](Call&, Device& device) {
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *pool = device.default_pool->handle;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType) {
  return EnterLocation(SIMCUDA_ENTRY(cuMemGetMemPool), location, [&](Call&, Device& device) {
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *pool = device.current_pool->handle;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType, CUmemoryPool handle) {
  return EnterLocation(SIMCUDA_ENTRY(cuMemSetMemPool), location, [&](Call& call, Device& device) {
    const std::shared_ptr<Pool> pool = call.machine.pools.Find(handle);
    if (pool == nullptr || pool->device() != device.index) return CUDA_ERROR_INVALID_VALUE;
    device.current_pool = pool;
    return CUDA_SUCCESS;
  });
}

// What a graph has is in use for as long as it lives.
SIMCUDA_EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice index, CUgraphMem_attribute attribute, void* value) {
  return EnterDevice(SIMCUDA_ENTRY(cuDeviceGetGraphMemAttribute), index, [&](Call&, Device& device) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const bool high = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    *static_cast<cuuint64_t*>(value) = high ? device.graph_memory.high_bytes : device.graph_memory.bytes;
    return CUDA_SUCCESS;
  });
}

// Only 0, which forgets the peak.
SIMCUDA_EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice index, CUgraphMem_attribute attribute, void* value) {
  return EnterDevice(SIMCUDA_ENTRY(cuDeviceSetGraphMemAttribute), index, [&](Call&, Device& device) {
    const bool high = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    if (!high || value == nullptr || *static_cast<cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
    device.graph_memory.high_bytes = device.graph_memory.bytes;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice index) {
  return EnterDevice(SIMCUDA_ENTRY(cuDeviceGraphMemTrim), index, [](Call&, Device&) { return CUDA_SUCCESS; });
}

SIMCUDA_EXPORT CUresult cuMemPoolCreate(CUmemoryPool* handle, const CUmemPoolProps* properties) {
  return Enter(SIMCUDA_ENTRY(cuMemPoolCreate), [&](Call& call) {
    if (handle == nullptr || properties == nullptr || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
      return CUDA_ERROR_INVALID_VALUE;
    if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
    if (call.machine.FindDevice(properties->location.id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    auto pool = std::make_shared<Pool>(&call.machine, properties->location.id);
    pool->handle = call.machine.pools.Add(pool);
    *handle = pool->handle;
    return CUDA_SUCCESS;
  });
}

// Its live blocks stay valid until they are freed.
SIMCUDA_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  return EnterPool(SIMCUDA_ENTRY(cuMemPoolDestroy), handle, [&](Call& call, Pool& pool) {
    Device& device = *call.machine.FindDevice(pool.device());
    if (device.default_pool.get() == &pool) return CUDA_ERROR_INVALID_VALUE;
    if (device.current_pool.get() == &pool) device.current_pool = device.default_pool;
    call.machine.pools.Remove(handle);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool handle, std::size_t keep_bytes) {
  return EnterPool(SIMCUDA_ENTRY(cuMemPoolTrimTo), handle, [&](Call&, Pool& pool) {
    pool.TrimTo(keep_bytes);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  return EnterPool(SIMCUDA_ENTRY(cuMemPoolSetAttribute), handle, [&](Call&, Pool& pool) {
    return value == nullptr ? CUDA_ERROR_INVALID_VALUE : pool.SetAttribute(attribute, value);
  });
}

SIMCUDA_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  return EnterPool(SIMCUDA_ENTRY(cuMemPoolGetAttribute), handle, [&](Call&, Pool& pool) {
    return value == nullptr ? CUDA_ERROR_INVALID_VALUE : pool.GetAttribute(attribute, value);
  });
}

SIMCUDA_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* descriptions,
                                           std::size_t count) {
  return EnterPool(SIMCUDA_ENTRY(cuMemPoolSetAccess), handle, [&](Call& call, Pool& pool) {
    if (descriptions == nullptr && count > 0) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i) {
      const CUmemLocation& location = descriptions[i].location;
      if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
      if (call.machine.FindDevice(location.id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
      if (!call.machine.Connected(location.id, pool.device())) return CUDA_ERROR_INVALID_DEVICE;
      // The pool's own device always has access.
      if (location.id == pool.device() && descriptions[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (std::size_t i = 0; i < count; ++i) pool.SetAccess(descriptions[i].location.id, descriptions[i].flags);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool handle, CUmemLocation* location) {
  return EnterPool(SIMCUDA_ENTRY(cuMemPoolGetAccess), handle, [&](Call&, Pool& pool) {
    if (flags == nullptr || location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
      return CUDA_ERROR_INVALID_VALUE;
    *flags = pool.GetAccess(location->id);
    return CUDA_SUCCESS;
  });
}

// No pool here has handle types.
SIMCUDA_EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData*, CUdeviceptr) {
  return Enter(SIMCUDA_ENTRY(cuMemPoolExportPointer), [](Call&) { return CUDA_ERROR_INVALID_VALUE; });
}

}  // namespace stalloc::simcuda
