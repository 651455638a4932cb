// The child's side of `stalloc doctor`: looks at the driver, or makes one allocation by one route.
//
// Everything is looked up as a program would look it up, so that a preloaded library meets it. The functions that this
// command itself links are those of the simulated device and are not used here.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "tools/doctor.h"

namespace stalloc::tools {
namespace {

constexpr std::size_t kProbeBytes = 1 << 20;

[[noreturn]] void Fail(const std::string& what, int code) {
  throw std::runtime_error(what + ": CUDA error " + std::to_string(code));
}

void Check(int result, const char* what) {
  if (result != 0) Fail(what, result);
}

class Library {
 public:
  explicit Library(std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (handle_ == nullptr) handle_ = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    }
    if (handle_ == nullptr) throw std::runtime_error(std::string(*names.begin()) + " cannot be loaded");
  }

  template <typename Function>
  Function* Find(const char* name) const {
    void* function = ::dlsym(handle_, name);
    if (function == nullptr) throw std::runtime_error(std::string("no ") + name);
    return reinterpret_cast<Function*>(function);
  }

 private:
  void* handle_ = nullptr;
};

class Driver : public Library {
 public:
  Driver() : Library({"libcuda.so.1"}) { Check(Find<CUresult(unsigned)>("cuInit")(0), "cuInit"); }

  void MakeContextCurrent() const {
    CUdevice device = 0;
    CUcontext context = nullptr;
    Check(Find<decltype(cuDeviceGet)>("cuDeviceGet")(&device, 0), "cuDeviceGet");
    Check(Find<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain")(&context, device),
          "cuDevicePrimaryCtxRetain");
    Check(Find<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  }
};

int Attribute(const Driver& driver, CUdevice_attribute attribute, CUdevice device) {
  int value = 0;
  Check(driver.Find<decltype(cuDeviceGetAttribute)>("cuDeviceGetAttribute")(&value, attribute, device),
        "cuDeviceGetAttribute");
  return value;
}

nlohmann::ordered_json Describe() {
  const Driver driver;
  int version = 0;
  int count = 0;
  Check(driver.Find<CUresult(int*)>("cuDriverGetVersion")(&version), "cuDriverGetVersion");
  Check(driver.Find<CUresult(int*)>("cuDeviceGetCount")(&count), "cuDeviceGetCount");
  nlohmann::ordered_json result;
  result["version"] = version;
  result["devices"] = nlohmann::ordered_json::array();
  for (CUdevice device = 0; device < count; ++device) {
    char name[256] = {};
    std::size_t bytes = 0;
    Check(driver.Find<decltype(cuDeviceGetName)>("cuDeviceGetName")(name, sizeof name - 1, device), "cuDeviceGetName");
    Check(driver.Find<CUresult(std::size_t*, CUdevice)>("cuDeviceTotalMem_v2")(&bytes, device), "cuDeviceTotalMem");
    result["devices"].push_back(
        {{"name", name},
         {"memory_bytes", bytes},
         {"virtual_memory", Attribute(driver, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device) != 0}});
  }
  return result;
}

using MallocAsync = CUresult(CUdeviceptr*, std::size_t, CUstream);
using FreeAsync = CUresult(CUdeviceptr, CUstream);

void AllocateAndFree(MallocAsync* allocate, FreeAsync* release) {
  CUdeviceptr address = 0;
  Check(allocate(&address, kProbeBytes, nullptr), "cuMemAllocAsync");
  Check(release(address, nullptr), "cuMemFreeAsync");
}

void ByDlsym() {
  const Driver driver;
  driver.MakeContextCurrent();
  AllocateAndFree(driver.Find<MallocAsync>("cuMemAllocAsync"), driver.Find<FreeAsync>("cuMemFreeAsync"));
}

void ByGetProcAddress() {
  const Driver driver;
  driver.MakeContextCurrent();
  constexpr int kVersion = 12000;
  const auto look_up = driver.Find<CUresult(const char*, void**, int, cuuint64_t, void*)>("cuGetProcAddress_v2");
  void* allocate = nullptr;
  void* release = nullptr;
  Check(look_up("cuMemAllocAsync", &allocate, kVersion, 0, nullptr), "cuGetProcAddress");
  Check(look_up("cuMemFreeAsync", &release, kVersion, 0, nullptr), "cuGetProcAddress");
  AllocateAndFree(reinterpret_cast<MallocAsync*>(allocate), reinterpret_cast<FreeAsync*>(release));
}

void ByRuntime() {
  const Library runtime({"libcudart.so.13", "libcudart.so.12", "libcudart.so"});
  void* address = nullptr;
  Check(runtime.Find<int(void**, std::size_t, void*)>("cudaMallocAsync")(&address, kProbeBytes, nullptr),
        "cudaMallocAsync");
  Check(runtime.Find<int(void*, void*)>("cudaFreeAsync")(address, nullptr), "cudaFreeAsync");
}

}  // namespace

int RunProbe(const std::string& route) {
  try {
    nlohmann::ordered_json result = nlohmann::ordered_json::object();
    if (route == kDescribeDriver) {
      result = Describe();
    } else if (route == "dlsym") {
      ByDlsym();
    } else if (route == "cuGetProcAddress") {
      ByGetProcAddress();
    } else if (route == "libcudart") {
      ByRuntime();
    } else {
      throw std::runtime_error("no such probe: " + route);
    }
    std::printf("%s\n", result.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace stalloc::tools
