#include "driver.h"

#include <dlfcn.h>

namespace stalloc::simcuda::cudart {
namespace {

bool Find(decltype(&::cuGetProcAddress_v2) get_proc_address, const char* name, int version, cuuint64_t flags,
          void** function) {
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return get_proc_address(name, function, version, flags, &status) == CUDA_SUCCESS && *function != nullptr;
}

bool Fill(decltype(&::cuGetProcAddress_v2) get_proc_address, cuuint64_t flags, DriverFunctions* functions) {
  bool complete = true;
#define CUDART_DRIVER_FUNCTION(name, version) \
  complete &= Find(get_proc_address, #name, version, flags, reinterpret_cast<void**>(&functions->real_##name));
#include "driver_functions.def"
#undef CUDART_DRIVER_FUNCTION
  return complete;
}

const Driver* Load() {
  static Driver driver;
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return nullptr;
  const auto first = reinterpret_cast<decltype(&::cuGetProcAddress_v2)>(dlsym(library, "cuGetProcAddress_v2"));
  if (first == nullptr) return nullptr;
  if (!Find(first, "cuGetProcAddress", 11030, CU_GET_PROC_ADDRESS_DEFAULT,
            reinterpret_cast<void**>(&driver.get_proc_address_11030)) ||
      !Find(first, "cuGetProcAddress", 12000, CU_GET_PROC_ADDRESS_DEFAULT,
            reinterpret_cast<void**>(&driver.get_proc_address))) {
    return nullptr;
  }
  driver.declare_variable =
      reinterpret_cast<decltype(driver.declare_variable)>(dlsym(library, "simcudaDeclareVariable"));
  driver.last_error = reinterpret_cast<decltype(driver.last_error)>(dlsym(library, "simcudaRuntimeError"));
  const bool complete = Fill(first, CU_GET_PROC_ADDRESS_DEFAULT, &driver.legacy) &&
                        Fill(first, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &driver.per_thread);
  return complete ? &driver : nullptr;
}

}  // namespace

const Driver* LoadedDriver() {
  static const Driver* const driver = Load();
  return driver;
}

}  // namespace stalloc::simcuda::cudart
