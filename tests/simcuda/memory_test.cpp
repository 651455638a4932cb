// Memory without stream order: sizes, alignment, double frees, pitches, attributes, copies, exhaustion.
#include <cstring>
#include <numeric>
#include <vector>

#include "simulated_device.h"

namespace stalloc::simcuda {
namespace {

class Memory : public SimulatedDevice {};
class LazyMemory : public LazyDevice {};

TEST_F(Memory, ZeroBytesIsAnErrorAndGivesANullPointer) {
  CUdeviceptr address = 0x1234;
  EXPECT_EQ(cuMemAlloc(&address, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(address, 0u);
}

TEST_F(Memory, DoubleAndInteriorFreesAreErrorsThatDoNotStick) {
  const CUdeviceptr block = Allocate(1 << 20);
  EXPECT_EQ(cuMemFree(block + 512), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(Allocate(64)), CUDA_SUCCESS);
}

TEST_F(Memory, SmallBlocksLieApartByTheirRoundedSizeAndLargeOnesAtPages) {
  const CUdeviceptr first = Allocate(1000), second = Allocate(1000);
  EXPECT_EQ(second - first, 1024u);
  for (const std::size_t size : {kPage, kPage + 1, 3 * kPage}) EXPECT_EQ(Allocate(size) % kPage, 0u) << size;
}

TEST_F(Memory, PhysicalMemoryIsTakenByPagesAndGivenBack) {
  const CUdeviceptr small = Allocate(1000), large = Allocate(kPage + 1);
  EXPECT_EQ(simcudaPhysicalBytes(0), 3 * kPage);
  EXPECT_EQ(cuMemFree(large), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(small), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPhysicalBytes(0), 0u);
  EXPECT_EQ(simcudaPeakPhysicalBytes(0), 3 * kPage);
  simcudaResetPeak(0);
  EXPECT_EQ(simcudaPeakPhysicalBytes(0), 0u);
}

TEST_F(Memory, MemGetInfoTakesNullForEitherArgument) {
  std::size_t free_bytes = 0, total_bytes = 0;
  EXPECT_EQ(cuMemGetInfo(nullptr, &total_bytes), CUDA_SUCCESS);
  EXPECT_EQ(cuMemGetInfo(&free_bytes, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes, total_bytes);
  Allocate(5 * kPage);
  EXPECT_EQ(cuMemGetInfo(&free_bytes, &total_bytes), CUDA_SUCCESS);
  EXPECT_EQ(total_bytes - free_bytes, 5 * kPage);
}

TEST_F(Memory, MoreThanThereIsIsOutOfMemoryAndDoesNotStick) {
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc(&address, std::size_t{141} << 30), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAlloc(&address, ~std::size_t{0}), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAlloc(&address, std::size_t{140} << 30), CUDA_SUCCESS)
      << "a whole device costs the host next to nothing";
}

TEST_F(LazyMemory, FreeWaitsForAllWorkAndAllocateDoesNot) {
  const CUdeviceptr block = Allocate(kPage), other = Allocate(kPage);
  const CUstream stream = MakeStream();
  simcudaWriteTag(stream, block, kPage, 1);
  Allocate(kPage);
  EXPECT_EQ(simcudaPendingOperations(), 1u);
  EXPECT_EQ(cuMemFree(other), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPendingOperations(), 0u);
}

TEST_F(Memory, AccessAfterFreeIsIllegalAndBreaksTheContext) {
  const CUdeviceptr block = Allocate(kPage);
  ASSERT_EQ(cuMemFree(block), CUDA_SUCCESS);
  simcudaReadTag(MakeStream(), block, 64, 0);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  std::size_t free_bytes = 0;
  EXPECT_EQ(cuMemGetInfo(&free_bytes, nullptr), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemGetInfo(&free_bytes, nullptr), CUDA_SUCCESS) << "a new context is sound";
}

TEST_F(Memory, PitchesAreMultiplesOf512) {
  CUdeviceptr address = 0;
  std::size_t pitch = 0;
  ASSERT_EQ(cuMemAllocPitch(&address, &pitch, 1000, 3, 4), CUDA_SUCCESS);
  EXPECT_EQ(pitch, 1024u);
  std::size_t size = 0;
  ASSERT_EQ(cuMemGetAddressRange(nullptr, &size, address), CUDA_SUCCESS);
  EXPECT_GE(size, 3 * pitch);
  EXPECT_EQ(cuMemAllocPitch(&address, &pitch, 1000, 3, 5), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, AttributesDescribeTheBlock) {
  const CUdeviceptr block = Allocate(3000);
  CUdeviceptr begin = 0;
  std::size_t size = 0;
  unsigned long long id = 0, other_id = 0;
  unsigned type = 0;
  ASSERT_EQ(cuPointerGetAttribute(&begin, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, block + 100), CUDA_SUCCESS);
  ASSERT_EQ(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, block + 100), CUDA_SUCCESS);
  ASSERT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block + 100), CUDA_SUCCESS);
  ASSERT_EQ(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, block + 100), CUDA_SUCCESS);
  EXPECT_EQ(begin, block);
  EXPECT_EQ(size, 3000u);
  EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
  ASSERT_EQ(cuMemFree(block), CUDA_SUCCESS);
  const CUdeviceptr again = Allocate(3000);
  ASSERT_EQ(cuPointerGetAttribute(&other_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, again), CUDA_SUCCESS);
  EXPECT_NE(id, other_id) << "ids of buffers are never used twice";
  int on_stack = 0;
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(&on_stack)),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, CopiesCarryBytes) {
  std::vector<unsigned char> out(60'000), in(out.size());
  std::iota(out.begin(), out.end(), static_cast<unsigned char>(3));
  const CUdeviceptr first = Allocate(out.size()), second = Allocate(out.size() + 7);
  ASSERT_EQ(cuMemcpyHtoD(first, out.data(), out.size()), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoD(second + 7, first, out.size()), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8(second + 10, 0xAB, 5), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32(first + 400, 0x04030201, 2), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoH(in.data(), second + 7, in.size()), CUDA_SUCCESS);
  std::vector<unsigned char> expected = out;
  std::fill_n(expected.begin() + 3, 5, 0xAB);
  EXPECT_EQ(in, expected);
  unsigned char word[6] = {};
  ASSERT_EQ(cuMemcpy(reinterpret_cast<CUdeviceptr>(word), first + 402, sizeof(word)), CUDA_SUCCESS);
  const unsigned char pattern[6] = {3, 4, 1, 2, 3, 4};
  EXPECT_EQ(std::memcmp(word, pattern, sizeof(word)), 0);
}

TEST_F(LazyMemory, PageableMemoryIsReadWhenQueuedAndPinnedMemoryWhenExecuted) {
  const CUdeviceptr block = Allocate(512);
  const CUstream stream = MakeStream();
  int pageable = 1;
  void* pinned = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&pinned, 4, 0), CUDA_SUCCESS);
  std::memcpy(pinned, &pageable, sizeof(pageable));
  ASSERT_EQ(cuMemcpyHtoDAsync(block, &pageable, 4, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoDAsync(block + 4, pinned, 4, stream), CUDA_SUCCESS);
  pageable = 2;
  std::memcpy(pinned, &pageable, sizeof(pageable));
  int result[2] = {};
  ASSERT_EQ(cuMemcpyDtoHAsync(result, block, 8, stream), CUDA_SUCCESS) << "to pageable memory: waits";
  EXPECT_EQ(result[0], 1);
  EXPECT_EQ(result[1], 2);
  EXPECT_EQ(cuMemFreeHost(pinned), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, IpcHandlesAreOfWholeAllocations) {
  const CUdeviceptr block = Allocate(kPage);
  CUipcMemHandle of_begin, of_middle;
  ASSERT_EQ(cuIpcGetMemHandle(&of_begin, block), CUDA_SUCCESS);
  ASSERT_EQ(cuIpcGetMemHandle(&of_middle, block + 4096), CUDA_SUCCESS);
  EXPECT_EQ(std::memcmp(&of_begin, &of_middle, sizeof(of_begin)), 0);
}

TEST_F(Memory, ArraysTakeMemoryAndHoldIt) {
  CUDA_ARRAY_DESCRIPTOR description{};
  description.Width = 1024;
  description.Height = 1024;
  description.Format = CU_AD_FORMAT_FLOAT;
  description.NumChannels = 4;
  CUarray array = nullptr;
  ASSERT_EQ(cuArrayCreate(&array, &description), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPhysicalBytes(0), std::size_t{16} << 20);
  const CUdeviceptr block = Allocate(64);
  ASSERT_EQ(cuMemsetD32(block, 7, 16), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoA(array, 128, block, 64), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32(block, 8, 16), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyAtoD(block, array, 124, 8), CUDA_SUCCESS);
  std::uint32_t words[3] = {};
  EXPECT_EQ(cuMemcpyDtoH(words, block, sizeof(words)), CUDA_SUCCESS);
  EXPECT_EQ(words[0], 0u);
  EXPECT_EQ(words[1], 7u);
  EXPECT_EQ(words[2], 8u);
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
  EXPECT_EQ(cuArrayDestroy(array), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPhysicalBytes(0), 0u);
}

TEST_F(Memory, ManagedMemoryIsFreedAsTheDevices) {
  CUdeviceptr address = 0;
  ASSERT_EQ(cuMemAllocManaged(&address, 4096, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(reinterpret_cast<void*>(address)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(address), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, CallsCanBeMadeToFail) {
  EXPECT_EQ(simcudaFailNext("cuNoSuchFunction", 1, CUDA_ERROR_UNKNOWN), 0);
  ASSERT_EQ(simcudaFailNext("cuMemAlloc", 2, CUDA_ERROR_OUT_OF_MEMORY), 1);
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc(&address, 64), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc(&address, 64), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAlloc(&address, 64), CUDA_SUCCESS);
  EXPECT_EQ(simcudaCallCount("cuMemAlloc"), 3u);
  EXPECT_EQ(simcudaCallCount("cuMemAlloc_v2"), 3u);
}

}  // namespace
}  // namespace stalloc::simcuda
