// What the driver says of an address before, while and after it is a block: the same with the shim as without it. Its
// neighbours keep the memory beneath it mapped.
#include <cuda.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

enum { kBytes = 100000 };

static CUdeviceptr Allocate(int async) {
  CUdeviceptr block = 0;
  CHECK((async ? cuMemAllocAsync(&block, kBytes, 0) : cuMemAlloc(&block, kBytes)) == CUDA_SUCCESS);
  return block;
}

static void Live(CUdeviceptr block, int async) {
  CUdeviceptr base = 0;
  size_t size = 0;
  unsigned type = 0;
  int descriptor = -1, device = -1;
  _Bool rdma = 0, mapped = 0;
  CHECK(cuMemGetAddressRange(&base, &size, block + 4096) == CUDA_SUCCESS && base == block && size == kBytes);
  CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block + kBytes - 1) == CUDA_SUCCESS);
  CHECK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block) == CUDA_SUCCESS && device == 0);
  CHECK(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, block) == CUDA_SUCCESS && mapped);
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  if (!async) {
    CHECK(cuPointerGetAttribute(&rdma, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, block) == CUDA_SUCCESS && rdma);
    const CUdeviceptr page = (block + 4095) / 4096 * 4096;
    CHECK(cuMemGetHandleForAddressRange(&descriptor, page, 65536, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0) ==
          CUDA_SUCCESS);
    CHECK(close(descriptor) == 0);
  }
}

static void Gone(CUdeviceptr block) {
  CUdeviceptr base = 0, start = 0, pointer = 0;
  size_t size = 0;
  unsigned type = 77;
  int descriptor = -1, device = 77;
  _Bool mapped = 1;
  CHECK(cuMemGetAddressRange(&base, &size, block) == CUDA_ERROR_NOT_FOUND);
  CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, block) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuPointerGetAttribute(&pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, block) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, block) == CUDA_SUCCESS && !mapped);
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
  void* data[] = {&type, &device, &start, &pointer};
  CHECK(cuPointerGetAttributes(4, attributes, data, block) == CUDA_SUCCESS);
  CHECK(type == 0 && device == -2 && start == 0 && pointer == 0);
  CHECK(cuMemFree(block) == CUDA_ERROR_INVALID_VALUE && cuMemFreeAsync(block, 0) == CUDA_ERROR_INVALID_VALUE);
  CUipcMemHandle handle;
  CHECK(cuIpcGetMemHandle(&handle, block) == CUDA_ERROR_INVALID_VALUE);
  (void)descriptor;
}

int main(void) {
  CUcontext context;
  CHECK(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  for (int async = 0; async < 2; ++async) {
    const CUdeviceptr before = Allocate(async), block = Allocate(async), after = Allocate(async);
    Live(before, async);
    Live(block, async);
    Live(after, async);
    CHECK((async ? cuMemFreeAsync(block, 0) : cuMemFree(block)) == CUDA_SUCCESS);
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    Gone(block);
    Live(before, async);
    Live(after, async);
  }
  return 0;
}
