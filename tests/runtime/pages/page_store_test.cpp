// Pages and who may access them, over two simulated devices: access follows what is said of a peer, for what is mapped
// and for what is being mapped by other threads at that moment.
#include "runtime/pages/page_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/device/device_memory.h"
#include "runtime/pages/mapped_pages.h"
#include "runtime/pages/peer_access.h"
#include "simcuda/device.h"
#include "simcuda/driver_table.h"
#include "simcuda/extensions.h"

namespace stalloc::runtime {
namespace {

TEST(MappedPages, RunsAreThoseOfASet) {
  std::mt19937 random(7);
  constexpr std::size_t kPages = 1000;
  MappedPages mapped(kPages);
  std::set<std::size_t> expected;
  for (int step = 0; step < 2000; ++step) {
    const std::size_t first = random() % kPages;
    const std::size_t count = std::min<std::size_t>(1 + random() % (step % 3 == 0 ? 200 : 5), kPages - first);
    const bool set = random() % 2 == 0;
    set ? mapped.Set(first, count) : mapped.Clear(first, count);
    for (std::size_t page = first; page < first + count; ++page)
      set ? (void)expected.insert(page) : (void)expected.erase(page);
    std::set<std::size_t> found;
    std::size_t end = 0;
    mapped.ForEachRun([&](std::size_t begin, std::size_t length) {
      ASSERT_GT(length, 0u);
      ASSERT_TRUE(end == 0 || begin > end) << "two runs touch at " << begin;
      end = begin + length;
      for (std::size_t page = begin; page < end; ++page) found.insert(page);
    });
    ASSERT_EQ(found, expected) << "step " << step;
    ASSERT_EQ(mapped.Has(first), set);
  }
}

class Pages : public ::testing::Test {
 protected:
  Pages() {
    simcuda::Reset({.device_count = 2});
    SIMCUDA_FILL_DRIVER_TABLE(driver_, STALLOC_DRIVER_FUNCTIONS);
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    for (const int device : {0, 1}) EXPECT_EQ(cuDevicePrimaryCtxRetain(&contexts_[device], device), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(contexts_[0]), CUDA_SUCCESS);
  }

  static CUmemAccess_flags AccessOf(int device, CUdeviceptr address) {
    CUmemLocation location{};
    location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = device;
    unsigned long long flags = 0;
    EXPECT_EQ(cuMemGetAccess(&flags, &location, address), CUDA_SUCCESS);
    return static_cast<CUmemAccess_flags>(flags);
  }

  DriverApi driver_;
  CUcontext contexts_[2] = {};
};

TEST_F(Pages, AccessIsTheUnionOfWhatWasSaid) {
  PeerAccess access;
  PageStore pages(driver_, 0, &access);
  ASSERT_EQ(pages.Reserve(64 * kPageBytes), CUDA_SUCCESS);
  ASSERT_EQ(pages.Grow(0, 4), CUDA_SUCCESS);
  const auto expect = [&](CUmemAccess_flags flags) {
    ASSERT_EQ(pages.ApplyAccess(1), CUDA_SUCCESS);
    EXPECT_EQ(AccessOf(1, pages.base() + 3 * kPageBytes), flags);
    EXPECT_EQ(AccessOf(0, pages.base() + 3 * kPageBytes), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  };
  access.SetPool(1, CU_MEM_ACCESS_FLAGS_PROT_READ);
  expect(CU_MEM_ACCESS_FLAGS_PROT_READ);
  access.Enable(1, contexts_[1]);
  expect(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  access.Disable(1, contexts_[1]);
  expect(CU_MEM_ACCESS_FLAGS_PROT_READ);
  access.Enable(1, contexts_[1]);
  access.SetPool(1, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  expect(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  access.ContextEnds(contexts_[1]);
  EXPECT_EQ(access.ContextEnded(contexts_[1], true), 1);
  EXPECT_EQ(access.ContextEnded(contexts_[1], true), -1);
  expect(CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

// A peer that the driver refuses for mapped memory must not cost the device its own.
TEST_F(Pages, ARefusedPeerDoesNotKeepTheDeviceFromGrowing) {
  simcuda::Reset({.device_count = 2, .peer_access = false});
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  PeerAccess access;
  PageStore pages(driver_, 0, &access);
  ASSERT_EQ(pages.Reserve(64 * kPageBytes), CUDA_SUCCESS);
  ASSERT_EQ(pages.Grow(0, 2), CUDA_SUCCESS);
  access.SetPool(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_EQ(pages.ApplyAccess(1), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(pages.Grow(2, 2), CUDA_SUCCESS);
  EXPECT_EQ(AccessOf(0, pages.base() + 2 * kPageBytes), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

// What the driver's pool keeps idle, as PyTorch has it keep everything, is memory that this process has already.
TEST_F(Pages, WhatTheDriversPoolKeepsIsTakenBackBeforeARequestIsRefused) {
  simcuda::Reset({.memory_bytes = 512 * kPageBytes});
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  CUcontext context = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  CUmemoryPool pool = nullptr;
  ASSERT_EQ(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
  cuuint64_t threshold = ~cuuint64_t{0};
  ASSERT_EQ(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold), CUDA_SUCCESS);
  CUdeviceptr passed = 0;
  ASSERT_EQ(cuMemAllocAsync(&passed, 400 * kPageBytes, nullptr), CUDA_SUCCESS);
  DeviceMemory memory(driver_, 0, 0, {});
  ASSERT_EQ(memory.Initialise(), CUDA_SUCCESS);
  EXPECT_EQ(memory.Allocate(300 * kPageBytes, {}, 0).result, CUDA_ERROR_OUT_OF_MEMORY) << "it is in use";
  ASSERT_EQ(cuMemFreeAsync(passed, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_GE(simcudaPhysicalBytes(0), 400 * kPageBytes) << "the pool was to keep it";
  EXPECT_EQ(memory.Allocate(300 * kPageBytes, {}, 0).result, CUDA_SUCCESS);
}

// Said between the driver's call and the moment when the page is known to be mapped: the last point at which whoever
// says it does not find the page.
std::function<void()> in_between;

TEST_F(Pages, AccessIsGivenToWhatIsBeingMapped) {
  driver_.cuMemSetAccess = [](CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access,
                              std::size_t count) {
    const CUresult result = cuMemSetAccess(address, bytes, access, count);
    if (const auto say = std::exchange(in_between, nullptr)) say();
    return result;
  };
  for (const bool given : {true, false}) {
    PeerAccess access;
    PageStore pages(driver_, 0, &access);
    ASSERT_EQ(pages.Reserve(64 * kPageBytes), CUDA_SUCCESS);
    access.SetPool(1, given ? CU_MEM_ACCESS_FLAGS_PROT_NONE : CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    const auto say = [&] {
      access.SetPool(1, given ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE);
      EXPECT_EQ(pages.ApplyAccess(1), CUDA_SUCCESS);
    };
    in_between = say;
    ASSERT_EQ(pages.Grow(0, 3), CUDA_SUCCESS);
    EXPECT_EQ(AccessOf(1, pages.base() + 2 * kPageBytes) != CU_MEM_ACCESS_FLAGS_PROT_NONE, given);
    access.SetPool(1, given ? CU_MEM_ACCESS_FLAGS_PROT_NONE : CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    in_between = say;
    const PageNumber all[] = {2, 0, 1};
    ASSERT_EQ(pages.MapView(kPageBytes, all), CUDA_SUCCESS);
    EXPECT_EQ(AccessOf(1, pages.views() + 2 * kPageBytes) != CU_MEM_ACCESS_FLAGS_PROT_NONE, given);
  }
}

// Threads map and unmap while another one gives access and takes it: in the end everything is as was said last.
TEST_F(Pages, AccessFollowsThreadsThatMap) {
  constexpr PageNumber kEach = 64;
  for (int round = 0; round < 20; ++round) {
    PeerAccess access;
    PageStore pages(driver_, 0, &access);
    ASSERT_EQ(pages.Reserve(3 * kEach * kPageBytes), CUDA_SUCCESS);
    std::atomic<bool> failed{false};
    const auto map = [&](PageNumber begin) {
      bool good = pages.Grow(begin, kEach) == CUDA_SUCCESS;
      std::vector<PageNumber> all(kEach);
      for (PageNumber page = 0; page < kEach; ++page) all[page] = begin + kEach - 1 - page;
      for (int again = 0; again < 8 && good; ++again) {
        good = pages.MapView(begin * kPageBytes, all) == CUDA_SUCCESS;
        if (again < 7) pages.UnmapView(begin * kPageBytes, kEach);
        pages.Shrink(begin, 8);
        good = good && pages.Grow(begin, 8) == CUDA_SUCCESS;
      }
      if (!good) failed = true;
    };
    std::thread first(map, 0), second(map, kEach);
    for (int change = 0; change < 12; ++change) {
      access.SetPool(1, change % 2 == 0 ? CU_MEM_ACCESS_FLAGS_PROT_NONE : CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
      EXPECT_EQ(pages.ApplyAccess(1), CUDA_SUCCESS);
    }
    first.join();
    second.join();
    ASSERT_FALSE(failed);
    for (PageNumber page = 0; page < 2 * kEach; ++page) {
      ASSERT_EQ(AccessOf(1, pages.base() + page * kPageBytes), CU_MEM_ACCESS_FLAGS_PROT_READWRITE) << page;
      ASSERT_EQ(AccessOf(1, pages.views() + page * kPageBytes), CU_MEM_ACCESS_FLAGS_PROT_READWRITE) << page;
    }
    pages.UnmapView(0, 2 * kEach);
    pages.Shrink(0, 2 * kEach);
    EXPECT_EQ(simcudaPhysicalBytes(0), 0u);
    cuMemAddressFree(pages.base(), pages.base_bytes());
    cuMemAddressFree(pages.views(), pages.views_bytes());
  }
}

}  // namespace
}  // namespace stalloc::runtime
