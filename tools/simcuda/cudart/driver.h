// Driver: how this runtime reaches the driver, as the real one does: dlopen of libcuda.so.1, dlsym of
// cuGetProcAddress_v2, and everything else by asking that for a name, a version and a flag. A preload that wraps dlsym
// sees all of it.
#pragma once

#include <cuda.h>

namespace stalloc::simcuda::cudart {

// Members carry a prefix, because cuda.h gives some names other meanings in files compiled for the per-thread default
// stream; the types are the same in both.
struct DriverFunctions {
#define CUDART_DRIVER_FUNCTION(name, version) decltype(&::name) real_##name = nullptr;
#include "driver_functions.def"
#undef CUDART_DRIVER_FUNCTION
};

struct Driver {
  DriverFunctions legacy;      // stream 0 is the legacy stream
  DriverFunctions per_thread;  // stream 0 is the per-thread one
  // The simulated driver's own (simcuda/extensions.h): where a real one reads a code image, it has to be told.
  CUresult (*declare_variable)(CUlibrary, const char*, size_t) = nullptr;
  int* (*last_error)() = nullptr;
  // cuGetProcAddress in its two ABIs, as the driver itself resolves that name.
  decltype(&::cuGetProcAddress_v2) get_proc_address = nullptr;
  CUresult (*get_proc_address_11030)(const char*, void**, int, cuuint64_t) = nullptr;
};

// The driver, loaded and resolved by the first call in the process. Null if there is none that has all of it.
const Driver* LoadedDriver();

}  // namespace stalloc::simcuda::cudart
