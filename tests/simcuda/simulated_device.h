// A fresh simulated device for each test, with the primary context of device 0 current.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <string>

#include "simcuda/device.h"
#include "simcuda/extensions.h"

namespace stalloc::simcuda {

inline constexpr std::size_t kPage = 2 << 20;

class SimulatedDevice : public ::testing::Test {
 protected:
  explicit SimulatedDevice(const Config& config = {}) {
    Reset(config);
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  }

  static CUstream MakeStream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream stream = nullptr;
    EXPECT_EQ(cuStreamCreate(&stream, flags), CUDA_SUCCESS);
    return stream;
  }
  static CUevent MakeEvent(unsigned flags = CU_EVENT_DISABLE_TIMING) {
    CUevent event = nullptr;
    EXPECT_EQ(cuEventCreate(&event, flags), CUDA_SUCCESS);
    return event;
  }
  static CUdeviceptr Allocate(std::size_t size_bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAlloc(&address, size_bytes), CUDA_SUCCESS);
    return address;
  }

  static CUmemLocation LocationOf(int device) {
    CUmemLocation location{};
    location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = device;
    return location;
  }
  static CUmemAllocationProp OnDevice(int device = 0) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = LocationOf(device);
    return properties;
  }
  static CUmemGenericAllocationHandle CreatePages(std::size_t count, int device = 0) {
    const CUmemAllocationProp properties = OnDevice(device);
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, count * kPage, &properties, 0), CUDA_SUCCESS);
    return handle;
  }
  static CUdeviceptr Reserve(std::size_t pages) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAddressReserve(&address, pages * kPage, 0, 0, 0), CUDA_SUCCESS);
    return address;
  }
  static CUresult Allow(CUdeviceptr address, std::size_t pages, int device = 0,
                        CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
    const CUmemAccessDesc description{LocationOf(device), flags};
    return cuMemSetAccess(address, pages * kPage, &description, 1);
  }
  static std::string FirstCorruption() {
    std::string text(simcudaFirstCorruption(nullptr, 0) + 1, '\0');
    simcudaFirstCorruption(text.data(), text.size());
    text.pop_back();
    return text;
  }

  CUcontext context_ = nullptr;
};

// The same, where nothing executes before something waits for it.
class LazyDevice : public SimulatedDevice {
 protected:
  LazyDevice() : SimulatedDevice({.seed = 0}) {}
};

}  // namespace stalloc::simcuda
