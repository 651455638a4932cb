#include "code.h"

#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace stalloc::simcuda::cudart {
namespace {

// A fat binary. Its address is the handle that the compiler's code passes on.
struct Binary {
  const void* image = nullptr;
  CUlibrary library = nullptr;  // from the first use on
};

struct Kernel {
  Binary* binary = nullptr;
  const char* name = nullptr;  // the compiler's own constant
  CUkernel kernel = nullptr;   // from the first use on
};

struct Variable {
  Binary* binary = nullptr;
  const char* name = nullptr;
  size_t size_bytes = 0;
  bool declared = false;
};

// Never destroyed: libraries unregister what they have when they are unloaded, in an order that is not ours.
struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<const void*, Kernel> kernels;
  std::unordered_map<const void*, Variable> variables;
};

Registry& TheRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

// Under the mutex.
CUresult Load(const Driver& driver, Binary& binary) {
  if (binary.library != nullptr) return CUDA_SUCCESS;
  return driver.legacy.real_cuLibraryLoadData(&binary.library, binary.image, nullptr, nullptr, 0, nullptr, nullptr, 0);
}

}  // namespace

CUresult FindKernel(const Driver& driver, const void* function, CUkernel* kernel) {
  Registry& registry = TheRegistry();
  {
    const std::shared_lock lock(registry.mutex);
    const auto found = registry.kernels.find(function);
    if (found == registry.kernels.end()) {
      // A cudaKernel_t is the driver's own handle.
      const char* name = nullptr;
      *kernel = static_cast<CUkernel>(const_cast<void*>(function));
      return driver.legacy.real_cuKernelGetName(&name, *kernel);
    }
    *kernel = found->second.kernel;
    if (*kernel != nullptr) return CUDA_SUCCESS;
  }
  const std::lock_guard lock(registry.mutex);
  Kernel& known = registry.kernels[function];
  if (known.kernel == nullptr) {
    if (const CUresult error = Load(driver, *known.binary)) return error;
    if (const CUresult error = driver.legacy.real_cuLibraryGetKernel(&known.kernel, known.binary->library, known.name))
      return error;
  }
  *kernel = known.kernel;
  return CUDA_SUCCESS;
}

CUresult FindSymbol(const Driver& driver, const void* symbol, CUdeviceptr* address, size_t* size_bytes) {
  Registry& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.variables.find(symbol);
  if (found == registry.variables.end()) return CUDA_ERROR_INVALID_HANDLE;
  Variable& variable = found->second;
  if (const CUresult error = Load(driver, *variable.binary)) return error;
  if (!variable.declared) {
    if (driver.declare_variable == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    if (const CUresult error = driver.declare_variable(variable.binary->library, variable.name, variable.size_bytes))
      return error;
    variable.declared = true;
  }
  return driver.legacy.real_cuLibraryGetGlobal(address, size_bytes, variable.binary->library, variable.name);
}

// What the compiler's code calls.

CUDART_EXPORT void** __cudaRegisterFatBinary(void* image) {
  return reinterpret_cast<void**>(new Binary{image, nullptr});
}

CUDART_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}

// The driver's library stays loaded: at the end of a process the driver may already be gone.
CUDART_EXPORT void __cudaUnregisterFatBinary(void** handle) {
  auto* binary = reinterpret_cast<Binary*>(handle);
  Registry& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  std::erase_if(registry.kernels, [&](const auto& entry) { return entry.second.binary == binary; });
  std::erase_if(registry.variables, [&](const auto& entry) { return entry.second.binary == binary; });
  delete binary;
}

CUDART_EXPORT char __cudaInitModule(void**) { return 1; }

CUDART_EXPORT void __cudaRegisterFunction(void** handle, const char* host_function, char*, const char* name, int,
                                          uint3*, uint3*, dim3*, dim3*, int*) {
  Registry& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  registry.kernels[host_function] = {reinterpret_cast<Binary*>(handle), name, nullptr};
}

CUDART_EXPORT void __cudaRegisterVar(void** handle, char* host_variable, char*, const char* name, int,
                                     size_t size_bytes, int, int) {
  Registry& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  registry.variables[host_variable] = {reinterpret_cast<Binary*>(handle), name, size_bytes, false};
}

CUDART_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return WithKernel(function, [&](const DriverFunctions&, CUkernel found) {
    if (kernel == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *kernel = reinterpret_cast<cudaKernel_t>(found);
    return CUDA_SUCCESS;
  });
}

}  // namespace stalloc::simcuda::cudart
