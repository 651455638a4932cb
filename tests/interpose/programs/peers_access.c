// Access that a program gives one device to the memory of another.
#include "peers.h"

// Blocks of before and of after.
void EnableByContext(void) {
  const CUdeviceptr early = Allocate(1);
  Use(0);
  CHECK(cuCtxEnablePeerAccess(contexts[1], 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCtxEnablePeerAccess(contexts[0], 0) != CUDA_SUCCESS);
  CHECK(cuCtxEnablePeerAccess(contexts[1], 0) == CUDA_SUCCESS);
  CHECK(cuCtxEnablePeerAccess(contexts[1], 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  const CUdeviceptr late = Allocate(1);
  CHECK(Touch(0, early, kBytes) == CUDA_SUCCESS && Touch(0, late, kBytes) == CUDA_SUCCESS);
  CHECK(Touch(1, early, kBytes) == CUDA_SUCCESS && Touch(1, late, kBytes) == CUDA_SUCCESS);
  // A context that the driver does not destroy keeps its access.
  CHECK(cuCtxDestroy(contexts[0]) != CUDA_SUCCESS && Touch(0, early, kBytes) == CUDA_SUCCESS);
  CHECK(Touch(0, Allocate(1), kBytes) == CUDA_SUCCESS);
  Use(1);
  CHECK(cuMemFree(early) == CUDA_SUCCESS && cuMemFree(late) == CUDA_SUCCESS);
  // Before anything is allocated on the other device.
  Use(1);
  CHECK(cuCtxEnablePeerAccess(contexts[0], 0) == CUDA_SUCCESS);
  CHECK(Touch(1, Allocate(0), kBytes) == CUDA_SUCCESS);
  Use(0);
  CHECK(cuCtxDisablePeerAccess(contexts[1]) == CUDA_SUCCESS);
  CHECK(cuCtxDisablePeerAccess(contexts[1]) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  CHECK(Touch(1, Allocate(0), kBytes) == CUDA_SUCCESS);
  CHECK(Touch(0, Allocate(1), kBytes) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

void EnableByPool(void) {
  CUdeviceptr pieces[8];
  CUmemoryPool pool;
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUdeviceptr early = AllocateAsync(1, kBytes);
  SetPoolAccess(1, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(cuDeviceGetDefaultMemPool(&pool, 1) == CUDA_SUCCESS);
  CHECK(cuMemPoolGetAccess(&flags, pool, &location) == CUDA_SUCCESS && flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(Touch(0, early, kBytes) == CUDA_SUCCESS);
  CHECK(Touch(0, AllocateAsync(1, kBytes), kBytes) == CUDA_SUCCESS);
  // Served, this one is stitched together from the pages between the pieces that stay.
  for (int i = 0; i < 8; ++i) pieces[i] = AllocateAsync(1, 4 << 20);
  for (int i = 0; i < 8; i += 2) CHECK(cuMemFreeAsync(pieces[i], streams[1]) == CUDA_SUCCESS);
  const uint64_t physical = simcudaPhysicalBytes(1);
  const CUdeviceptr stitched = AllocateAsync(1, 16 << 20);
  CHECK(!served || simcudaPhysicalBytes(1) == physical);
  CHECK(Touch(1, stitched, 16 << 20) == CUDA_SUCCESS && Touch(0, stitched, 16 << 20) == CUDA_SUCCESS);
  SetPoolAccess(1, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CHECK(Touch(1, stitched, 16 << 20) == CUDA_SUCCESS);
  CHECK(Touch(0, stitched, 16 << 20) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

void Refuse(void) {
  const CUdeviceptr block = Allocate(1);
  Use(0);
  CHECK(cuCtxEnablePeerAccess(contexts[1], 0) == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  CHECK(Touch(1, block, kBytes) == CUDA_SUCCESS && Touch(1, Allocate(1), kBytes) == CUDA_SUCCESS);
  CHECK(Touch(0, block, kBytes) == CUDA_ERROR_ILLEGAL_ADDRESS);
}
