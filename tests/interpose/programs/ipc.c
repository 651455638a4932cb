// A program that gives away memory by legacy IPC handles: a handle names a whole allocation, so one of a block that
// shares its allocation with others would open at the wrong place. Exit code 3: there is no handle.
#include <cuda.h>
#include <string.h>

#include "check.h"

int main(void) {
  CUcontext context;
  CUdeviceptr block = 0, other = 0, opened = 0;
  CUipcMemHandle handle, inside;
  CHECK(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  CHECK(cuMemAlloc(&block, 4 << 20) == CUDA_SUCCESS && cuMemAllocAsync(&other, 4 << 20, 0) == CUDA_SUCCESS);
  const CUresult result = cuIpcGetMemHandle(&handle, block);
  CHECK(cuIpcGetMemHandle(&handle, block) == result);
  if (result == CUDA_SUCCESS) {
    // The handle names the allocation, wherever in it the address lies; a process cannot open its own.
    CHECK(cuIpcGetMemHandle(&inside, block + (2 << 20)) == CUDA_SUCCESS);
    CHECK(memcmp(&inside, &handle, sizeof(handle)) == 0);
    CHECK(cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_ERROR_INVALID_CONTEXT);
  }
  CHECK(cuIpcGetMemHandle(&handle, other) == CUDA_ERROR_INVALID_VALUE);  // of a pool, in CUDA too
  CHECK(cuMemFree(block) == CUDA_SUCCESS && cuMemFreeAsync(other, 0) == CUDA_SUCCESS);
  if (result == CUDA_ERROR_INVALID_VALUE) return 3;
  CHECK(result == CUDA_SUCCESS);
  return 0;
}
