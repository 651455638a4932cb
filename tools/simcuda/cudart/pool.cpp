// Memory pools. The runtime's structures and enumerators are the driver's under other names.
#include "runtime.h"

namespace stalloc::simcuda::cudart {

static_assert(sizeof(cudaMemPoolProps) == sizeof(CUmemPoolProps));
static_assert(sizeof(cudaMemAccessDesc) == sizeof(CUmemAccessDesc));
static_assert(sizeof(cudaMemLocation) == sizeof(CUmemLocation));
static_assert(static_cast<int>(cudaMemPoolAttrUsedMemHigh) == static_cast<int>(CU_MEMPOOL_ATTR_USED_MEM_HIGH));

CUDART_EXPORT cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return Finish(
      WithContext([&](const DriverFunctions& driver) { return driver.real_cuDeviceGetDefaultMemPool(pool, device); }));
}

CUDART_EXPORT cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return Finish(
      WithContext([&](const DriverFunctions& driver) { return driver.real_cuDeviceGetMemPool(pool, device); }));
}

CUDART_EXPORT cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return Finish(
      WithContext([&](const DriverFunctions& driver) { return driver.real_cuDeviceSetMemPool(device, pool); }));
}

CUDART_EXPORT cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuMemPoolCreate(pool, reinterpret_cast<const CUmemPoolProps*>(properties));
  }));
}

CUDART_EXPORT cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return Finish(WithContext([&](const DriverFunctions& driver) { return driver.real_cuMemPoolDestroy(pool); }));
}

CUDART_EXPORT cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep_bytes) {
  return Finish(
      WithContext([&](const DriverFunctions& driver) { return driver.real_cuMemPoolTrimTo(pool, keep_bytes); }));
}

CUDART_EXPORT cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value);
  }));
}

CUDART_EXPORT cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value);
  }));
}

CUDART_EXPORT cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* descriptions,
                                               size_t count) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuMemPoolSetAccess(pool, reinterpret_cast<const CUmemAccessDesc*>(descriptions), count);
  }));
}

CUDART_EXPORT cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                                               cudaMemLocation* location) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    return driver.real_cuMemPoolGetAccess(reinterpret_cast<CUmemAccess_flags*>(flags), pool,
                                          reinterpret_cast<CUmemLocation*>(location));
  }));
}

}  // namespace stalloc::simcuda::cudart
