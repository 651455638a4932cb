// cuGetProcAddress: versions, flags, both ABIs, and that its answers are the exported functions.
#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "ledger.h"
#include "simcuda/device.h"

#undef cuGetProcAddress
extern "C" CUresult cuGetProcAddress(const char*, void**, int, cuuint64_t);

namespace stalloc::simcuda {
namespace {

// libcuda.so.1 as a program sees it.
class DriverLibrary : public ::testing::Test {
 protected:
  DriverLibrary() : library_(dlopen(SIMCUDA_DRIVER_LIBRARY, RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(library_, nullptr) << dlerror();
    resolve_ = reinterpret_cast<decltype(resolve_)>(dlsym(library_, "cuGetProcAddress_v2"));
  }

  void* Symbol(const char* name) const { return dlsym(library_, name); }
  void* Resolve(const char* name, int version, cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT) {
    void* function = this;
    EXPECT_EQ(resolve_(name, &function, version, flags, &status_), CUDA_SUCCESS);
    EXPECT_EQ(status_ == CU_GET_PROC_ADDRESS_SUCCESS, function != nullptr);
    return function;
  }

  void* library_;
  decltype(&cuGetProcAddress_v2) resolve_;
  CUdriverProcAddressQueryResult status_{};
};

TEST_F(DriverLibrary, ExportsEveryEntryPoint) {
  for (const EntryPointInfo& info : kEntryPointInfo) EXPECT_NE(Symbol(info.symbol), nullptr) << info.symbol;
  EXPECT_NE(Symbol("simcudaCorruptions"), nullptr);
  EXPECT_EQ(Symbol("_ZN7stalloc7simcuda7Machine3GetEv"), nullptr) << "nothing of the inside";
}

TEST_F(DriverLibrary, AnswersAreTheExportedFunctions) {
  for (const EntryPointInfo& info : kEntryPointInfo) {
    const cuuint64_t flags =
        info.per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    EXPECT_EQ(Resolve(info.name, info.since, flags), Symbol(info.symbol)) << info.symbol;
  }
}

TEST_F(DriverLibrary, TheVersionDecides) {
  EXPECT_EQ(Resolve("cuMemAlloc", 2000), Symbol("cuMemAlloc"));
  EXPECT_EQ(Resolve("cuMemAlloc", 3010), Symbol("cuMemAlloc"));
  EXPECT_EQ(Resolve("cuMemAlloc", 3020), Symbol("cuMemAlloc_v2"));
  EXPECT_EQ(Resolve("cuMemAlloc", CUDA_VERSION), Symbol("cuMemAlloc_v2"));
  EXPECT_EQ(Resolve("cuGetProcAddress", 11030), Symbol("cuGetProcAddress"));
  EXPECT_EQ(Resolve("cuGetProcAddress", 12000), Symbol("cuGetProcAddress_v2"));
  EXPECT_EQ(Resolve("cuCtxCreate", 12040), Symbol("cuCtxCreate_v3"));
  EXPECT_EQ(Resolve("cuMemAllocAsync", 11010), nullptr);
  EXPECT_EQ(status_, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(Resolve("cuNoSuchFunction", CUDA_VERSION), nullptr);
  EXPECT_EQ(status_, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(Resolve("cuMemAlloc_v2", CUDA_VERSION), nullptr) << "base names only";
  void* function = nullptr;
  EXPECT_EQ(resolve_("cuMemAlloc", &function, CUDA_VERSION + 1, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverLibrary, TheFlagChoosesThePerThreadVariant) {
  constexpr auto kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  EXPECT_EQ(Resolve("cuMemAllocAsync", CUDA_VERSION), Symbol("cuMemAllocAsync"));
  EXPECT_EQ(Resolve("cuMemAllocAsync", CUDA_VERSION, kPerThread), Symbol("cuMemAllocAsync_ptsz"));
  EXPECT_EQ(Resolve("cuMemcpyHtoD", CUDA_VERSION, kPerThread), Symbol("cuMemcpyHtoD_v2_ptds"));
  EXPECT_EQ(Resolve("cuMemAlloc", CUDA_VERSION, kPerThread), Symbol("cuMemAlloc_v2")) << "has none";
  EXPECT_EQ(Resolve("cuStreamQuery", 6000, kPerThread), Symbol("cuStreamQuery")) << "they came with CUDA 7";
}

TEST_F(DriverLibrary, TheOldAbiHasNoStatus) {
  const auto resolve =
      reinterpret_cast<CUresult (*)(const char*, void**, int, cuuint64_t)>(Resolve("cuGetProcAddress", 11030));
  void* function = nullptr;
  EXPECT_EQ(resolve("cuMemFree", &function, 12000, 0), CUDA_SUCCESS);
  EXPECT_EQ(function, Symbol("cuMemFree_v2"));
  EXPECT_EQ(resolve("cuNoSuchFunction", &function, 12000, 0), CUDA_ERROR_NOT_FOUND);
}

TEST(ProcAddress, WorksWhereTheDriverIsLinkedIn) {
  Reset({});
  void* function = nullptr;
  EXPECT_EQ(cuGetProcAddress("cuInit", &function, 12000, 0), CUDA_SUCCESS) << "before cuInit";
  EXPECT_EQ(function, reinterpret_cast<void*>(&cuInit));
}

}  // namespace
}  // namespace stalloc::simcuda
