// Reserve, create, map, access: rules, aliases, life of physical memory.
#include "runtime/base/driver_api.h"
#include "simcuda/driver_table.h"
#include "simulated_device.h"

namespace stalloc::simcuda {
namespace {

class VirtualMemory : public SimulatedDevice {};

TEST_F(VirtualMemory, GranularityIsTwoMiB) {
  const CUmemAllocationProp properties = OnDevice();
  for (const auto flags : {CU_MEM_ALLOC_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED}) {
    std::size_t granularity = 0;
    ASSERT_EQ(cuMemGetAllocationGranularity(&granularity, &properties, flags), CUDA_SUCCESS);
    EXPECT_EQ(granularity, kPage);
  }
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, kPage - 1, &properties, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&handle, 0, &properties, 0), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAddressReserve(&address, kPage + 4096, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VirtualMemory, MapsOnlyWholeFreePagesOfOneReservation) {
  const CUdeviceptr base = Reserve(4);
  const auto handle = CreatePages(2);
  EXPECT_EQ(cuMemMap(base, kPage, kPage, handle, 0), CUDA_ERROR_INVALID_VALUE) << "offset";
  EXPECT_EQ(cuMemMap(base + 4096, kPage, 0, handle, 0), CUDA_ERROR_INVALID_VALUE) << "alignment";
  EXPECT_EQ(cuMemMap(base, 3 * kPage, 0, handle, 0), CUDA_ERROR_INVALID_VALUE) << "more than the handle has";
  EXPECT_EQ(cuMemMap(base + 3 * kPage, 2 * kPage, 0, handle, 0), CUDA_ERROR_INVALID_VALUE) << "beyond the reservation";
  ASSERT_EQ(cuMemMap(base + kPage, 2 * kPage, 0, handle, 0), CUDA_SUCCESS);
  for (const int page : {0, 1, 2}) {
    EXPECT_EQ(cuMemMap(base + static_cast<std::size_t>(page) * kPage, 2 * kPage, 0, handle, 0),
              CUDA_ERROR_INVALID_VALUE)
        << "overlaps at page " << page;
  }
  EXPECT_EQ(cuMemMap(base, kPage, 0, handle + 1, 0), CUDA_ERROR_INVALID_VALUE) << "no such handle";
}

TEST_F(VirtualMemory, UnmapsAndGivesAccessOnlyToWholeMappings) {
  const CUdeviceptr base = Reserve(3);
  const auto handle = CreatePages(2);
  ASSERT_EQ(cuMemMap(base, 2 * kPage, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(Allow(base, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Allow(base, 3), CUDA_ERROR_INVALID_VALUE) << "the third page is not mapped";
  EXPECT_EQ(Allow(base, 2), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(base, kPage), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(base, 3 * kPage), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(base, 3 * kPage), CUDA_ERROR_INVALID_VALUE) << "something is still mapped";
  EXPECT_EQ(cuMemUnmap(base, 2 * kPage), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(base, 2 * kPage), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(base, 2 * kPage), CUDA_ERROR_INVALID_VALUE) << "not the size that was reserved";
  EXPECT_EQ(cuMemAddressFree(base, 3 * kPage), CUDA_SUCCESS);
}

TEST_F(VirtualMemory, PhysicalMemoryLivesWhileItIsMapped) {
  const CUdeviceptr base = Reserve(1);
  const auto handle = CreatePages(1);
  EXPECT_EQ(simcudaPhysicalBytes(0), kPage);
  ASSERT_EQ(cuMemMap(base, kPage, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(simcudaPhysicalBytes(0), kPage);
  ASSERT_EQ(cuMemUnmap(base, kPage), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPhysicalBytes(0), 0u);
  EXPECT_EQ(simcudaPeakPhysicalBytes(0), kPage);
}

TEST_F(VirtualMemory, RetainWorksOnInteriorAddresses) {
  const CUdeviceptr base = Reserve(1);
  const auto handle = CreatePages(1);
  ASSERT_EQ(cuMemMap(base, kPage, 0, handle, 0), CUDA_SUCCESS);
  CUmemGenericAllocationHandle retained = 0;
  ASSERT_EQ(cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(base + 12345)), CUDA_SUCCESS);
  EXPECT_EQ(retained, handle);
  ASSERT_EQ(cuMemUnmap(base, kPage), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPhysicalBytes(0), kPage) << "retained twice, released once";
  EXPECT_EQ(cuMemRelease(retained), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPhysicalBytes(0), 0u);
}

TEST_F(VirtualMemory, AliasesShareContents) {
  //  base  [ A ][ B ]      view  [ B ][ A ]
  const CUdeviceptr base = Reserve(2), view = Reserve(2);
  const auto a = CreatePages(1), b = CreatePages(1);
  ASSERT_EQ(cuMemMap(base, kPage, 0, a, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(base + kPage, kPage, 0, b, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(view, kPage, 0, b, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(view + kPage, kPage, 0, a, 0), CUDA_SUCCESS);
  ASSERT_EQ(Allow(base, 2), CUDA_SUCCESS);
  ASSERT_EQ(Allow(view, 2), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPhysicalBytes(0), 2 * kPage);
  const CUstream stream = MakeStream();
  simcudaWriteTag(stream, base + kPage / 2, kPage, 7);  // the end of A, the begin of B
  simcudaReadTag(stream, view, kPage / 2, 7);
  simcudaReadTag(stream, view + kPage + kPage / 2, kPage / 2, 7);
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(simcudaCorruptions(), 0u) << FirstCorruption();
  simcudaReadTag(stream, view + kPage / 2, 16, 7);
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(simcudaCorruptions(), 1u);
  EXPECT_NE(FirstCorruption().find("expected tag 7"), std::string::npos) << FirstCorruption();
}

TEST_F(VirtualMemory, AddressRangeIsTheSingleMapping) {
  const CUdeviceptr base = Reserve(2);
  ASSERT_EQ(cuMemMap(base, kPage, 0, CreatePages(1), 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(base + kPage, kPage, 0, CreatePages(1), 0), CUDA_SUCCESS);
  CUdeviceptr begin = 0;
  std::size_t size = 0;
  ASSERT_EQ(cuMemGetAddressRange(&begin, &size, base + kPage + 5), CUDA_SUCCESS);
  EXPECT_EQ(begin, base + kPage);
  EXPECT_EQ(size, kPage);
  CUipcMemHandle handle;
  EXPECT_EQ(cuIpcGetMemHandle(&handle, base), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VirtualMemory, HasNoSynchronousOperations) {
  const CUdeviceptr base = Reserve(1);
  ASSERT_EQ(cuMemMap(base, kPage, 0, CreatePages(1), 0), CUDA_SUCCESS);
  const unsigned on = 1;
  EXPECT_EQ(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, base), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, Allocate(64)), CUDA_SUCCESS);
}

TEST_F(VirtualMemory, AccessNeedsMappingAndPermission) {
  const CUdeviceptr base = Reserve(1);
  ASSERT_EQ(cuMemMap(base, kPage, 0, CreatePages(1), 0), CUDA_SUCCESS);
  const CUmemLocation location = LocationOf(0);
  unsigned long long flags = ~0ull;
  ASSERT_EQ(cuMemGetAccess(&flags, &location, base), CUDA_SUCCESS);
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  ASSERT_EQ(Allow(base, 1, 0, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_SUCCESS);
  const CUstream stream = MakeStream();
  simcudaReadTag(stream, base, 64, 0);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  simcudaWriteTag(stream, base, 64, 1);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(VirtualMemory, UnmapDoesNotWaitAndPendingWorkFaults) {
  const CUdeviceptr base = Reserve(1);
  ASSERT_EQ(cuMemMap(base, kPage, 0, CreatePages(1), 0), CUDA_SUCCESS);
  ASSERT_EQ(Allow(base, 1), CUDA_SUCCESS);
  const CUstream stream = MakeStream();
  simcudaWriteTag(stream, base, kPage, 1);
  EXPECT_EQ(cuMemUnmap(base, kPage), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPendingOperations(), 1u);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc(&address, 64), CUDA_ERROR_ILLEGAL_ADDRESS) << "sticky";
}

TEST_F(VirtualMemory, RunsOutAtTheDevicesSize) {
  Reset({.memory_bytes = 3 * kPage});
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  CreatePages(2);
  const CUmemAllocationProp properties = OnDevice();
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, 2 * kPage, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemCreate(&handle, kPage, &properties, 0), CUDA_SUCCESS);
}

TEST_F(VirtualMemory, AWholeDeviceOfPagesMaps) {
  constexpr std::size_t kPages = 70'000;
  const CUdeviceptr base = Reserve(kPages);
  for (std::size_t i = 0; i < kPages; ++i) {
    ASSERT_EQ(cuMemMap(base + i * kPage, kPage, 0, CreatePages(1), 0), CUDA_SUCCESS);
    ASSERT_EQ(Allow(base + i * kPage, 1), CUDA_SUCCESS);
  }
  EXPECT_EQ(simcudaPhysicalBytes(0), kPages * kPage);
  EXPECT_EQ(simcudaCallCount("cuMemMap"), kPages);
  EXPECT_GE(simcudaVirtualTimeNs(), kPages * 25'000);
  const CUstream stream = MakeStream();
  simcudaWriteTag(stream, base, kPages * kPage, 3);
  simcudaReadTag(stream, base, kPages * kPage, 3);
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(simcudaCorruptions(), 0u);
}

TEST(DriverTable, HasEveryFunctionOfTheRuntime) {
  runtime::DriverApi driver;
  SIMCUDA_FILL_DRIVER_TABLE(driver, STALLOC_DRIVER_FUNCTIONS);
#define EXPECT_FILLED(name, required) EXPECT_NE(driver.name, nullptr) << #name;
  STALLOC_DRIVER_FUNCTIONS(EXPECT_FILLED)
#undef EXPECT_FILLED
  int count = 0;
  Reset({.device_count = 3});
  ASSERT_EQ(driver.cuInit(0), CUDA_SUCCESS);
  ASSERT_EQ(driver.cuDeviceGetCount(&count), CUDA_SUCCESS);
  EXPECT_EQ(count, 3);
}

}  // namespace
}  // namespace stalloc::simcuda
