// What the driver functions answer about served memory. Only under the shim with the double, whose figures stand below.
#include <cuda.h>
#include <stdint.h>

#include "check.h"

int main(void) {
  CUcontext context;
  CUdeviceptr p = 0, base = 0, own = 0;
  size_t size = 0, free_bytes = 0, total = 0;
  CHECK(cuInit(0) == CUDA_SUCCESS);
  CHECK(cuMemGetInfo(&free_bytes, &total) == CUDA_ERROR_INVALID_CONTEXT);  // before any context
  CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS && cuCtxSetCurrent(context) == CUDA_SUCCESS);
  CHECK(cuMemGetInfo(&free_bytes, &total) == CUDA_SUCCESS);
  const size_t free_before = free_bytes;
  CHECK(cuMemAlloc(&p, 1000) == CUDA_SUCCESS);

  CHECK(cuMemGetInfo(&free_bytes, NULL) == CUDA_SUCCESS && free_bytes == free_before + (1 << 20));
  CHECK(cuMemGetInfo(NULL, &total) == CUDA_SUCCESS && cuMemGetInfo(NULL, NULL) == CUDA_SUCCESS);

  CHECK(cuMemGetAddressRange(&base, &size, p + 999) == CUDA_SUCCESS && base == p && size == 1000);
  CHECK(cuMemGetAddressRange(NULL, NULL, p) == CUDA_SUCCESS);
  CHECK(cuMemGetAddressRange(&base, &size, p + 1000) == CUDA_ERROR_NOT_FOUND);

  CUdeviceptr start = 0;
  size_t range = 0;
  unsigned long long id = 0;
  CHECK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p + 5) == CUDA_SUCCESS && start == p);
  CHECK(cuPointerGetAttribute(&range, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p + 5) == CUDA_SUCCESS && range == 1000);
  CHECK(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p + 5) == CUDA_SUCCESS && id == 4242);
  CHECK(cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_BUFFER_ID, p) == CUDA_ERROR_INVALID_VALUE);
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
  unsigned int type = 77;
  void* data[] = {&range, &type, &start};
  range = 0, start = 0;
  CHECK(cuPointerGetAttributes(3, attributes, data, p + 5) == CUDA_SUCCESS);
  CHECK(range == 1000 && start == p && type == 77);  // the fake driver leaves the type alone

  CUipcMemHandle handle;
  CHECK(cuIpcGetMemHandle(&handle, p) == CUDA_ERROR_INVALID_VALUE);

  // Pools: counters of the default one are the driver's (1) and the allocator's together.
  CUmemoryPool pool = NULL, mine = NULL;
  cuuint64_t value = 0;
  CHECK(cuDeviceGetDefaultMemPool(&pool, 0) == CUDA_SUCCESS && cuMemPoolCreate(&mine, NULL) == CUDA_SUCCESS);
  CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value) == CUDA_SUCCESS && value == 1001);
  CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value) == CUDA_SUCCESS && value == 1000001);
  CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value) == CUDA_SUCCESS && value == 2000001);
  CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &value) == CUDA_SUCCESS && value == 3000001);
  CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value) == CUDA_SUCCESS && value == 1);
  CHECK(cuMemPoolGetAttribute(mine, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value) == CUDA_SUCCESS && value == 1);
  value = 0;
  CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value) == CUDA_SUCCESS);      // reset.used
  CHECK(cuMemPoolSetAttribute(mine, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &value) == CUDA_SUCCESS);  // not ours
  CHECK(cuMemPoolTrimTo(pool, 0) == CUDA_SUCCESS);                                                // trim
  CHECK(cuMemPoolTrimTo(mine, 0) == CUDA_SUCCESS);                                                // not ours

  // Requests from a pool of the program's own are the driver's, by name or because it was made the current one.
  CHECK(cuMemAllocFromPoolAsync(&own, 1000, pool, 0) == CUDA_SUCCESS && (own >> 40) == (p >> 40));
  CHECK(cuMemAllocFromPoolAsync(&own, 1000, mine, 0) == CUDA_SUCCESS && (own >> 40) != (p >> 40));
  CHECK(cuDeviceSetMemPool(0, mine) == CUDA_SUCCESS);
  CHECK(cuMemAllocAsync(&own, 1000, 0) == CUDA_SUCCESS && (own >> 40) != (p >> 40));
  CHECK(cuDeviceSetMemPool(0, pool) == CUDA_SUCCESS);
  CHECK(cuMemAllocAsync(&own, 1000, 0) == CUDA_SUCCESS && (own >> 40) == (p >> 40));
  return 0;
}
