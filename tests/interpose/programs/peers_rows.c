// Rows and volumes between the host and one device by another.
#include "peers.h"

enum { kPitch = 512, kWidth = 100, kRows = 6, kTight = 8 };

static uint8_t At(const uint8_t* rows, int row, int byte) { return rows[row * kPitch + byte]; }

// Rows and volumes between the host and device 1's memory, by device 0. Row 0 is left alone, and what follows a row.
void CopyRowsWithHost(CUdeviceptr block, CUstream stream) {
  static uint8_t there[kRows * kPitch], back[kRows * kPitch];
  CUDA_MEMCPY2D to = {0}, from = {0};
  CUDA_MEMCPY3D volume_to = {0}, volume_from = {0};
  to.srcY = to.dstY = from.srcY = from.dstY = 1;
  to.srcMemoryType = from.dstMemoryType = CU_MEMORYTYPE_HOST;
  to.srcHost = there, from.dstHost = back;
  to.dstMemoryType = CU_MEMORYTYPE_DEVICE, from.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  to.dstDevice = from.srcDevice = block;
  to.srcPitch = to.dstPitch = from.srcPitch = from.dstPitch = kPitch;
  to.WidthInBytes = from.WidthInBytes = kWidth;
  to.Height = from.Height = kRows - 1;
  // The same rows as a volume of slices of one.
  volume_to.srcZ = volume_to.dstZ = volume_from.srcZ = volume_from.dstZ = 1;
  volume_to.srcMemoryType = volume_from.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  volume_to.srcDevice = (CUdeviceptr)there, volume_from.dstDevice = (CUdeviceptr)back;
  volume_to.dstMemoryType = volume_from.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  volume_to.dstDevice = volume_from.srcDevice = block;
  volume_to.srcPitch = volume_to.dstPitch = volume_from.srcPitch = volume_from.dstPitch = kPitch;
  volume_to.srcHeight = volume_to.dstHeight = volume_from.srcHeight = volume_from.dstHeight = 1;
  volume_to.WidthInBytes = volume_from.WidthInBytes = kWidth;
  volume_to.Height = volume_from.Height = 1;
  volume_to.Depth = volume_from.Depth = kRows - 1;
  for (int way = 0; way < 5; ++way) {
    for (int i = 0; i < kRows * kPitch; ++i) there[i] = (uint8_t)(way + i % 251), back[i] = 0;
    Use(0);
    if (way == 0) CHECK(cuMemcpy2D(&to) == CUDA_SUCCESS && cuMemcpy2D(&from) == CUDA_SUCCESS);
    if (way == 1) CHECK(cuMemcpy2DUnaligned(&to) == CUDA_SUCCESS && cuMemcpy2DUnaligned(&from) == CUDA_SUCCESS);
    if (way == 2) CHECK(cuMemcpy2DAsync(&to, stream) == CUDA_SUCCESS && cuMemcpy2DAsync(&from, stream) == CUDA_SUCCESS);
    if (way == 3) CHECK(cuMemcpy3D(&volume_to) == CUDA_SUCCESS && cuMemcpy3D(&volume_from) == CUDA_SUCCESS);
    if (way == 4) {
      CHECK(cuMemcpy3DAsync(&volume_to, stream) == CUDA_SUCCESS);
      CHECK(cuMemcpy3DAsync(&volume_from, stream) == CUDA_SUCCESS);
    }
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    for (int row = 1; row < kRows; ++row) {
      CHECK(At(back, row, 0) == At(there, row, 0) && At(back, row, kWidth - 1) == At(there, row, kWidth - 1));
      CHECK(At(back, row, kWidth) == 0);
    }
    CHECK(At(back, 0, 0) == 0);
  }
  CHECK(cuMemcpy2D(NULL) == CUDA_ERROR_INVALID_VALUE);
  // Fills, each over the first bytes of what the one before it filled, in the order of the stream and by default.
  for (int by_default = 0; by_default < 2; ++by_default) {
    const size_t height = kRows - 1;
    if (by_default) {
      CHECK(cuMemsetD2D8(block + kPitch, kPitch, 1, kTight, height) == CUDA_SUCCESS);
      CHECK(cuMemsetD2D32(block + kPitch, kPitch, 0x03030303, 1, height) == CUDA_SUCCESS);
      CHECK(cuMemsetD2D16(block + kPitch, kPitch, 0x0202, 1, height) == CUDA_SUCCESS);
      CHECK(cuMemcpy2D(&from) == CUDA_SUCCESS);
    } else {
      CHECK(cuMemsetD2D8Async(block + kPitch, kPitch, 4, kTight, height, stream) == CUDA_SUCCESS);
      CHECK(cuMemsetD2D32Async(block + kPitch, kPitch, 0x06060606, 1, height, stream) == CUDA_SUCCESS);
      CHECK(cuMemsetD2D16Async(block + kPitch, kPitch, 0x0505, 1, height, stream) == CUDA_SUCCESS);
      CHECK(cuMemcpy2DAsync(&from, stream) == CUDA_SUCCESS && cuStreamSynchronize(stream) == CUDA_SUCCESS);
    }
    const uint8_t base = by_default ? 1 : 4;
    for (int row = 1; row < kRows; ++row) {
      CHECK(At(back, row, 1) == base + 1 && At(back, row, 3) == base + 2 && At(back, row, kTight - 1) == base);
      CHECK(At(back, row, kTight) == At(there, row, kTight));
    }
  }
}
