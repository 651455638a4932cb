// Several devices in one process: who may access whose memory, and copies between them.
#include "simulated_device.h"

namespace stalloc::simcuda {
namespace {

class Peers : public SimulatedDevice {
 protected:
  explicit Peers(const Config& config = {.device_count = 2}) : SimulatedDevice(config) {
    for (const int device : {0, 1}) EXPECT_EQ(cuDevicePrimaryCtxRetain(&contexts_[device], device), CUDA_SUCCESS);
  }

  void Use(int device) const { ASSERT_EQ(cuCtxSetCurrent(contexts_[device]), CUDA_SUCCESS); }
  // What a write of the whole block by a kernel of `device` comes to.
  CUresult WriteFrom(int device, CUdeviceptr block) const {
    Use(device);
    simcudaWriteTag(nullptr, block, kPage, 1);
    return cuCtxSynchronize();
  }
  CUdeviceptr AllocateOn(int device) const {
    Use(device);
    return Allocate(kPage);
  }
  CUdeviceptr FromPoolOf(int device) const {
    Use(device);
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAllocAsync(&address, kPage, nullptr), CUDA_SUCCESS);
    return address;
  }

  CUcontext contexts_[2] = {};
};

class Unconnected : public Peers {
 protected:
  Unconnected() : Peers({.device_count = 2, .peer_access = false}) {}
};

TEST_F(Peers, AccessIsAskedFor) {
  const CUdeviceptr block = AllocateOn(0);
  Use(1);
  EXPECT_EQ(cuCtxEnablePeerAccess(contexts_[0], 0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxEnablePeerAccess(contexts_[0], 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  EXPECT_EQ(WriteFrom(1, block), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDisablePeerAccess(contexts_[0]), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDisablePeerAccess(contexts_[0]), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  EXPECT_EQ(WriteFrom(1, block), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(Peers, AccessDoesNotReachVirtualMemory) {
  const CUdeviceptr base = Reserve(1);
  ASSERT_EQ(cuMemMap(base, kPage, 0, CreatePages(1, 0), 0), CUDA_SUCCESS);
  ASSERT_EQ(Allow(base, 1, 0), CUDA_SUCCESS);
  ASSERT_EQ(Allow(base, 1, 1, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_SUCCESS);
  Use(1);
  EXPECT_EQ(cuCtxEnablePeerAccess(contexts_[0], 0), CUDA_SUCCESS);
  simcudaReadTag(nullptr, base, kPage, 0);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(WriteFrom(1, base), CUDA_ERROR_ILLEGAL_ADDRESS);
}

// The pool says who, not the context.
TEST_F(Peers, APoolGivesAccessOfItsOwn) {
  const CUdeviceptr block = FromPoolOf(0);
  CUmemoryPool pool = nullptr;
  ASSERT_EQ(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
  CUmemAccessDesc access{LocationOf(1), CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  EXPECT_EQ(cuMemPoolSetAccess(pool, &access, 1), CUDA_SUCCESS);
  EXPECT_EQ(WriteFrom(1, block), CUDA_SUCCESS);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  EXPECT_EQ(cuMemPoolSetAccess(pool, &access, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxEnablePeerAccess(contexts_[0], 0), CUDA_SUCCESS);
  EXPECT_EQ(WriteFrom(1, block), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(Peers, AllocatedMemoryIsCopiedWithoutAccess) {
  const CUdeviceptr from = AllocateOn(0), to = AllocateOn(1);
  Use(0);
  ASSERT_EQ(simcudaWriteTag(nullptr, from, kPage, 9), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoDAsync(to, from, kPage, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  Use(1);
  ASSERT_EQ(simcudaReadTag(nullptr, to, kPage, 9), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(simcudaCorruptions(), 0u) << FirstCorruption();
}

TEST_F(Peers, OtherMemoryIsCopiedByThePeerCallsAlone) {
  const CUdeviceptr from = FromPoolOf(0), to = FromPoolOf(1);
  Use(0);
  ASSERT_EQ(simcudaWriteTag(nullptr, from, kPage, 9), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyPeerAsync(to, contexts_[1], from, contexts_[0], kPage, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyPeer(to, contexts_[0], from, nullptr, kPage), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuMemcpyPeer(to, contexts_[1], from, contexts_[0], kPage), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  Use(1);
  ASSERT_EQ(simcudaReadTag(nullptr, to, kPage, 9), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(simcudaCorruptions(), 0u) << FirstCorruption();
  Use(0);
  cuMemcpyDtoDAsync(to, from, kPage, nullptr);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

// cuMemAlloc memory is copied and filled from wherever; mapped memory is refused where it is out of reach.
TEST_F(Peers, MappedMemoryOutOfReachIsNeitherCopiedNorFilled) {
  const CUdeviceptr allocated = AllocateOn(1);
  const CUdeviceptr mapped = Reserve(1);
  ASSERT_EQ(cuMemMap(mapped, kPage, 0, CreatePages(1, 1), 0), CUDA_SUCCESS);
  ASSERT_EQ(Allow(mapped, 1, 1), CUDA_SUCCESS);
  std::uint32_t word = 7;
  const auto expect = [&](CUdeviceptr memory, CUresult reads, CUresult writes) {
    EXPECT_EQ(cuMemcpyDtoH(&word, memory, 4), reads);
    EXPECT_EQ(cuMemcpyDtoHAsync(&word, memory, 4, nullptr), reads);
    EXPECT_EQ(cuMemcpyHtoD(memory, &word, 4), writes);
    EXPECT_EQ(cuMemcpyAsync(memory, reinterpret_cast<CUdeviceptr>(&word), 4, nullptr), writes);
    EXPECT_EQ(cuMemsetD8(memory, 1, 4), writes);
    EXPECT_EQ(cuMemsetD32Async(memory, 1, 1, nullptr), writes);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  };
  Use(0);
  expect(allocated, CUDA_SUCCESS, CUDA_SUCCESS);
  expect(mapped, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(Allow(mapped, 1, 0, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_SUCCESS);
  expect(mapped, CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE);
  Use(1);
  expect(mapped, CUDA_SUCCESS, CUDA_SUCCESS);
}

TEST_F(Unconnected, NothingGivesAccess) {
  int can = 1;
  EXPECT_EQ(cuDeviceCanAccessPeer(&can, 0, 1), CUDA_SUCCESS);
  EXPECT_EQ(can, 0);
  EXPECT_EQ(cuCtxEnablePeerAccess(contexts_[1], 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  CUmemoryPool pool = nullptr;
  ASSERT_EQ(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
  const CUmemAccessDesc access{LocationOf(1), CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  EXPECT_EQ(cuMemPoolSetAccess(pool, &access, 1), CUDA_ERROR_INVALID_DEVICE);
  const CUdeviceptr base = Reserve(1);
  ASSERT_EQ(cuMemMap(base, kPage, 0, CreatePages(1, 0), 0), CUDA_SUCCESS);
  EXPECT_EQ(Allow(base, 1, 1), CUDA_ERROR_INVALID_DEVICE);
}

}  // namespace
}  // namespace stalloc::simcuda
