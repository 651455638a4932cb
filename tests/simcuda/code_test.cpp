// Modules, kernels and launches; what the cards say about themselves.
#include <gtest/gtest.h>

#include <cstring>

#include "cards.h"
#include "simulated_device.h"

namespace stalloc::simcuda {
namespace {

class Code : public SimulatedDevice {
 protected:
  explicit Code(const Config& config = {}) : SimulatedDevice(config) {
    EXPECT_EQ(cuModuleLoadData(&module_, ".version 7.0"), CUDA_SUCCESS);
    EXPECT_EQ(cuModuleGetFunction(&kernel_, module_, "kernel"), CUDA_SUCCESS);
  }
  CUresult Launch(unsigned grid, unsigned block, unsigned shared_bytes = 0, CUstream stream = nullptr) const {
    return cuLaunchKernel(kernel_, grid, 1, 1, block, 1, 1, shared_bytes, stream, nullptr, nullptr);
  }
  static int Attribute(CUdevice_attribute attribute) {
    int value = -1;
    EXPECT_EQ(cuDeviceGetAttribute(&value, attribute, 0), CUDA_SUCCESS);
    return value;
  }

  CUmodule module_ = nullptr;
  CUfunction kernel_ = nullptr;
};

TEST_F(Code, ANameIsOneFunction) {
  CUfunction again = nullptr, other = nullptr;
  const char* name = nullptr;
  EXPECT_EQ(cuModuleGetFunction(&again, module_, "kernel"), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleGetFunction(&other, module_, "other"), CUDA_SUCCESS);
  EXPECT_EQ(again, kernel_);
  EXPECT_NE(other, kernel_);
  EXPECT_EQ(cuFuncGetName(&name, other), CUDA_SUCCESS);
  EXPECT_STREQ(name, "other");
  EXPECT_EQ(cuModuleUnload(module_), CUDA_SUCCESS);
  EXPECT_EQ(Launch(1, 1), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuModuleLoadData(&module_, "not an image"), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(cuModuleLoad(&module_, "/no/such/file"), CUDA_ERROR_FILE_NOT_FOUND);
}

TEST_F(Code, LaunchesAreChecked) {
  EXPECT_EQ(Launch(1, 1024), CUDA_SUCCESS);
  EXPECT_EQ(Launch(0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Launch(1, 1025), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Launch(1, 32, 100 << 10), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncSetAttribute(kernel_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 << 10), CUDA_SUCCESS);
  EXPECT_EQ(Launch(1, 32, 100 << 10), CUDA_SUCCESS);
  EXPECT_EQ(cuFuncSetAttribute(kernel_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Code, ALargerGridTakesLonger) {
  const auto measure = [&](unsigned grid) {
    const CUevent start = MakeEvent(CU_EVENT_DEFAULT), end = MakeEvent(CU_EVENT_DEFAULT);
    EXPECT_EQ(cuEventRecord(start, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(Launch(grid, 256), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(end, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuEventSynchronize(end), CUDA_SUCCESS);
    float milliseconds = 0;
    EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_SUCCESS);
    return milliseconds;
  };
  EXPECT_GE(measure(1), 0.002f);
  // 2^28 threads of 32 bytes at 4.2 TB/s.
  EXPECT_NEAR(measure(1 << 20), 2.05f, 0.1f);
}

TEST_F(Code, OccupancyFollowsTheLimits) {
  const auto blocks = [&](int threads, std::size_t shared_bytes) {
    int count = -1;
    EXPECT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&count, kernel_, threads, shared_bytes), CUDA_SUCCESS);
    return count;
  };
  EXPECT_EQ(blocks(1024, 0), 2);
  EXPECT_EQ(blocks(32, 0), 32);
  EXPECT_EQ(blocks(128, 40 << 10), 5);  // 228 KiB of shared memory
  EXPECT_EQ(blocks(128, 64 << 10), 0);  // more than the kernel may have
}

TEST_F(Code, AVariableHasMemoryInTheContext) {
  CUlibrary library = nullptr;
  CUdeviceptr address = 0, again = 0;
  std::size_t size_bytes = 0;
  ASSERT_EQ(cuLibraryLoadData(&library, ".version 7.0", nullptr, nullptr, 0, nullptr, nullptr, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuLibraryGetGlobal(&address, &size_bytes, library, "table"), CUDA_ERROR_NOT_FOUND);
  ASSERT_EQ(simcudaDeclareVariable(library, "table", 400), CUDA_SUCCESS);
  ASSERT_EQ(cuLibraryGetGlobal(&address, &size_bytes, library, "table"), CUDA_SUCCESS);
  EXPECT_EQ(size_bytes, 400u);
  EXPECT_EQ(cuMemsetD8(address, 1, 400), CUDA_SUCCESS);
  ASSERT_EQ(cuLibraryGetGlobal(&again, nullptr, library, "table"), CUDA_SUCCESS);
  EXPECT_EQ(again, address);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
}

class Ampere : public Code {
 protected:
  static Config OfCard(const char* key) {
    Config config;
    config.card = FindCard(key);
    return config;
  }
  Ampere() : Code(OfCard("a100")) {}
};

TEST_F(Ampere, AnswersAsItsCardDoes) {
  char name[64];
  ASSERT_EQ(cuDeviceGetName(name, sizeof(name), 0), CUDA_SUCCESS);
  EXPECT_STREQ(name, "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(Attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR), 8);
  EXPECT_EQ(Attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 108);
  EXPECT_EQ(Attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE), 40 << 20);
  EXPECT_EQ(Attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH), 0);
  EXPECT_EQ(Attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X), 2147483647);
  int version = 0;
  EXPECT_EQ(cuFuncGetAttribute(&version, CU_FUNC_ATTRIBUTE_BINARY_VERSION, kernel_), CUDA_SUCCESS);
  EXPECT_EQ(version, 80);
  CUtensorMap map;
  EXPECT_EQ(cuTensorMapReplaceAddress(&map, nullptr), CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace
}  // namespace stalloc::simcuda
