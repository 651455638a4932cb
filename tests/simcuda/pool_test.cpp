// Memory in stream order: reuse, growth, trimming, attributes, crossed frees.
#include <limits>
#include <random>

#include "simulated_device.h"

namespace stalloc::simcuda {
namespace {

constexpr std::uint64_t kChunk = std::uint64_t{32} << 20;  // by which a pool grows

class Pools : public LazyDevice {
 protected:
  Pools() { EXPECT_EQ(cuDeviceGetDefaultMemPool(&pool_, 0), CUDA_SUCCESS); }

  cuuint64_t Attribute(CUmemPool_attribute attribute) const {
    cuuint64_t value = 0;
    EXPECT_EQ(cuMemPoolGetAttribute(pool_, attribute, &value), CUDA_SUCCESS);
    return value;
  }
  void Set(CUmemPool_attribute attribute, cuuint64_t value) {
    EXPECT_EQ(cuMemPoolSetAttribute(pool_, attribute, &value), CUDA_SUCCESS);
  }
  void KeepEverything() { Set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, std::numeric_limits<cuuint64_t>::max()); }
  static CUdeviceptr AllocateAsync(std::size_t size_bytes, CUstream stream) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAllocAsync(&address, size_bytes, stream), CUDA_SUCCESS);
    return address;
  }

  CUmemoryPool pool_ = nullptr;
};

TEST_F(Pools, ZeroBytesGiveANullPointer) {
  CUdeviceptr address = 1;
  EXPECT_EQ(cuMemAllocAsync(&address, 0, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(address, 0u);
  EXPECT_EQ(cuMemFreeAsync(0, nullptr), CUDA_SUCCESS);
}

TEST_F(Pools, TheSameStreamTakesFreedMemoryAtOnce) {
  const CUstream stream = MakeStream();
  const CUdeviceptr first = AllocateAsync(kPage, stream);
  simcudaReadTag(stream, first, kPage, 0);
  ASSERT_EQ(cuMemFreeAsync(first, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(first, stream), CUDA_ERROR_INVALID_VALUE) << "freed already, though nothing has executed";
  EXPECT_EQ(AllocateAsync(kPage, stream), first);
}

TEST_F(Pools, AnotherStreamWaitsOrGetsOtherMemory) {
  KeepEverything();
  const CUstream a = MakeStream(), b = MakeStream();
  const CUdeviceptr first = AllocateAsync(kChunk, a);
  simcudaWriteTag(a, first, kChunk, 1);
  simcudaReadTag(a, first, kChunk, 1);
  ASSERT_EQ(cuMemFreeAsync(first, a), CUDA_SUCCESS);
  int off = 0;
  ASSERT_EQ(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &off), CUDA_SUCCESS);
  EXPECT_NE(AllocateAsync(kChunk, b), first);
  int on = 1;
  ASSERT_EQ(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &on), CUDA_SUCCESS);
  const CUdeviceptr second = AllocateAsync(kChunk, b);
  EXPECT_EQ(second, first) << "behind a wait";
  simcudaWriteTag(b, second, kChunk, 2);
  ASSERT_EQ(cuStreamSynchronize(b), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(a), CUDA_SUCCESS);
  EXPECT_EQ(simcudaCorruptions(), 0u) << FirstCorruption();
}

TEST_F(Pools, CountWhatIsUsedAndHeld) {
  KeepEverything();
  const CUstream stream = MakeStream();
  const CUdeviceptr block = AllocateAsync(3 * kPage, stream);
  EXPECT_EQ(Attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 3 * kPage);
  ASSERT_EQ(cuMemFreeAsync(block, stream), CUDA_SUCCESS);
  AllocateAsync(1000, stream);
  EXPECT_EQ(Attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1024u);
  EXPECT_EQ(Attribute(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 3 * kPage);
  EXPECT_EQ(Attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), kChunk);
  EXPECT_EQ(simcudaPhysicalBytes(0), kChunk);
  Set(CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0);
  EXPECT_EQ(Attribute(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 1024u);
  cuuint64_t value = 5;
  EXPECT_EQ(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Pools, ReleaseAboveTheThresholdWhenTheHostWaits) {
  const CUstream stream = MakeStream();
  const CUdeviceptr block = AllocateAsync(4 * kPage, stream);
  simcudaWriteTag(stream, block, kPage, 1);
  ASSERT_EQ(cuMemFreeAsync(block, stream), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPhysicalBytes(0), kChunk);
  ASSERT_EQ(cuMemPoolTrimTo(pool_, 0), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPhysicalBytes(0), kChunk) << "work before the free has not executed";
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPhysicalBytes(0), 0u);
}

TEST_F(Pools, TrimKeepsWhatIsAskedFor) {
  KeepEverything();
  const CUstream stream = MakeStream();
  CUdeviceptr blocks[4];
  for (CUdeviceptr& block : blocks) block = AllocateAsync(kChunk, stream);
  for (const CUdeviceptr block : blocks) ASSERT_EQ(cuMemFreeAsync(block, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  ASSERT_EQ(cuMemPoolTrimTo(pool_, 2 * kChunk), CUDA_SUCCESS);
  EXPECT_EQ(Attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 2 * kChunk);
  AllocateAsync(2 * kChunk, stream);
  EXPECT_EQ(Attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 2 * kChunk) << "neighbouring chunks are one";
}

TEST_F(Pools, FreesMayCross) {
  const CUstream stream = MakeStream();
  const CUdeviceptr from_malloc = Allocate(kPage), from_pool = AllocateAsync(kPage, stream);
  simcudaReadTag(stream, from_malloc, kPage, 0);
  EXPECT_EQ(cuMemFreeAsync(from_malloc, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(from_malloc, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(from_malloc), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(simcudaPhysicalBytes(0), kPage + kChunk) << "freed in stream order: not yet";
  EXPECT_EQ(cuMemFree(from_pool), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(from_pool), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPhysicalBytes(0), 0u);
}

TEST_F(Pools, AUsersPoolIsApart) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = LocationOf(0);
  CUmemoryPool own = nullptr;
  ASSERT_EQ(cuMemPoolCreate(&own, &properties), CUDA_SUCCESS);
  CUdeviceptr block = 0;
  ASSERT_EQ(cuMemAllocFromPoolAsync(&block, kPage, own, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(Attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0u) << "the default pool's";
  CUmemoryPool of_block = nullptr;
  ASSERT_EQ(cuPointerGetAttribute(&of_block, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, block), CUDA_SUCCESS);
  EXPECT_EQ(of_block, own);
  ASSERT_EQ(cuMemPoolDestroy(own), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(block, nullptr), CUDA_SUCCESS) << "blocks outlive the pool's handle";
  EXPECT_EQ(cuMemPoolDestroy(pool_), CUDA_ERROR_INVALID_VALUE) << "the default pool stays";
  EXPECT_EQ(simcudaPhysicalBytes(0), 0u);
}

// Blocks made on one stream, used there, freed on another that waits for it: whatever the seed, nobody reads another
// block's tag.
TEST_F(Pools, AnOrderedProgramNeverSeesACorruption) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    Reset({.seed = seed});
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    std::mt19937 random(seed);
    const CUstream streams[] = {MakeStream(), MakeStream(), MakeStream(CU_STREAM_DEFAULT), CU_STREAM_LEGACY};
    const CUevent event = MakeEvent();
    for (std::uint64_t tag = 1; tag <= 300; ++tag) {
      const CUstream user = streams[random() % 4], freer = streams[random() % 4];
      const std::size_t size = 512 * (1 + random() % 9000);
      const CUdeviceptr block = AllocateAsync(size, user);
      simcudaWriteTag(user, block, size, tag);
      simcudaReadTag(user, block, size, tag);
      ASSERT_EQ(cuEventRecord(event, user), CUDA_SUCCESS);
      ASSERT_EQ(cuStreamWaitEvent(freer, event, 0), CUDA_SUCCESS);
      simcudaReadTag(freer, block, size, tag);
      ASSERT_EQ(cuMemFreeAsync(block, freer), CUDA_SUCCESS);
      if (random() % 20 == 0) {
        ASSERT_EQ(cuStreamSynchronize(user), CUDA_SUCCESS);
      }
    }
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    ASSERT_EQ(simcudaCorruptions(), 0u) << "seed " << seed << ": " << FirstCorruption();
    ASSERT_EQ(simcudaPhysicalBytes(0), 0u);
  }
}

TEST_F(Pools, LargeBlocksLieBetweenSmallOnes) {
  const CUstream stream = MakeStream();
  const CUdeviceptr small = AllocateAsync(1000, stream), large = AllocateAsync(3 * kPage, stream);
  EXPECT_EQ(large, small + 1024) << "pages are no bounds to a pool's blocks";
}

TEST_F(Pools, OutOfMemoryDoesNotStick) {
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAllocAsync(&address, std::size_t{200} << 30, nullptr), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(address, 0u);
  EXPECT_EQ(cuMemAllocAsync(&address, 64, nullptr), CUDA_SUCCESS);
}

}  // namespace
}  // namespace stalloc::simcuda
