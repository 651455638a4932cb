// An array of one device and the memory of the other, while the array's device is current: in one piece and in rows.
#include "peers.h"

enum { kWidth = 64, kRows = 4, kArrayBytes = kWidth * kRows * 4 };

static CUarray MakeArray(int device) {
  CUarray array;
  const CUDA_ARRAY_DESCRIPTOR description = {kWidth, kRows, CU_AD_FORMAT_UNSIGNED_INT32, 1};
  Use(device);
  CHECK(cuArrayCreate(&array, &description) == CUDA_SUCCESS);
  return array;
}

static void Put(int device, CUdeviceptr block, uint32_t first) {
  uint32_t words[kWidth * kRows];
  for (int i = 0; i < kWidth * kRows; ++i) words[i] = first + (uint32_t)i;
  Use(device);
  CHECK(cuMemcpyHtoD(block, words, sizeof words) == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS);
}

static uint32_t WordAt(int device, CUdeviceptr block, int index) {
  uint32_t word = 0;
  Use(device);
  CHECK(cuMemcpyDtoH(&word, block + 4 * (CUdeviceptr)index, 4) == CUDA_SUCCESS);
  return word;
}

void CopyArrays(void) {
  const CUdeviceptr blocks[2] = {Allocate(0), Allocate(1)};
  for (int acting = 0; acting < 2; ++acting) {
    const CUdeviceptr other = blocks[1 - acting];
    const CUarray array = MakeArray(acting);
    const uint32_t first = 1000u * (uint32_t)(acting + 1);
    Put(1 - acting, other, first);
    Put(1 - acting, other + kPage, 0);
    // All of it there, all but the first row back.
    Use(acting);
    CHECK(cuMemcpyDtoA(array, 0, other, kArrayBytes) == CUDA_SUCCESS);
    CHECK(cuMemcpyAtoD(other + kPage, array, kWidth * 4, kArrayBytes - kWidth * 4) == CUDA_SUCCESS);
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    CHECK(WordAt(1 - acting, other + kPage, 0) == first + kWidth);
    CHECK(WordAt(1 - acting, other + kPage, kWidth * (kRows - 1) - 1) == first + kWidth * kRows - 1);
    CHECK(WordAt(1 - acting, other + kPage, kWidth * (kRows - 1)) == kWidth * (kRows - 1));
    // The current device's own memory is no other's.
    Use(acting);
    CHECK(cuMemcpyAtoD(blocks[acting], array, 4, 4) == CUDA_SUCCESS && WordAt(acting, blocks[acting], 0) == first + 1);
    CHECK(cuMemcpyAtoD(other, array, kArrayBytes, 4) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyDtoA((CUarray)0x10, 0, other, 4) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuArrayDestroy(array) == CUDA_SUCCESS);
  }
}

// Needs access, which hardware may not have.
void CopyArrayRows(void) {
  const CUdeviceptr blocks[2] = {Allocate(0), Allocate(1)};
  const CUarray array = MakeArray(0);
  Put(1, blocks[1], 500);
  CUDA_MEMCPY2D to = {0}, from = {0};
  to.srcMemoryType = CU_MEMORYTYPE_DEVICE, to.srcDevice = blocks[1], to.srcPitch = kWidth * 4;
  to.dstMemoryType = CU_MEMORYTYPE_ARRAY, to.dstArray = array;
  to.WidthInBytes = kWidth * 4, to.Height = kRows;
  from.srcMemoryType = CU_MEMORYTYPE_ARRAY, from.srcArray = array, from.srcXInBytes = 8, from.srcY = 1;
  from.dstMemoryType = CU_MEMORYTYPE_DEVICE, from.dstDevice = blocks[1] + kPage, from.dstPitch = 256;
  from.WidthInBytes = 16, from.Height = kRows - 1;
  Use(0);
  CHECK(cuMemcpy2D(&to) == CUDA_SUCCESS && cuMemcpy2DAsync(&from, streams[0]) == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(streams[0]) == CUDA_SUCCESS);
  CHECK(WordAt(1, blocks[1] + kPage, 0) == 500 + kWidth + 2);
  CHECK(WordAt(1, blocks[1] + kPage, 64 * (kRows - 2) + 3) == 500 + kWidth * (kRows - 1) + 5);
  Use(0);
  CHECK(cuArrayDestroy(array) == CUDA_SUCCESS);
}
