// What every function of the runtime does: load the driver, make a context current, keep the thread's last error.
//
// A runtime function is one expression: Finish(WithContext([&](const DriverFunctions& driver) { ... })).
#pragma once

#include <cuda.h>

#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

#include "driver.h"

// Begins the definition of a function of the runtime, inside namespace stalloc::simcuda::cudart: C functions of one
// name are one function, whatever namespace they are declared in.
#define CUDART_EXPORT extern "C" __attribute__((visibility("default")))

// A function that has another name in the program than here, because the header declares that name otherwise: the two
// libraries, libcudart.so.13 and libcudart.so.12, are made of the same sources and CUDA 13's header.
//   CUDART_AS("symbol", Name, parameters) { ... }
//   CUDART_RENAMED("symbol of 13", "symbol of 12", Name, parameters) { ... }   where 12 has it as _v2 or _v3
//   CUDART_RENAMED_STREAM(...)    the same for one that takes a stream
#define CUDART_AS(symbol, name, ...)                                                               \
  extern "C" __attribute__((visibility("default"))) cudaError_t name(__VA_ARGS__) __asm__(symbol); \
  extern "C" cudaError_t name(__VA_ARGS__)
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define CUDART_PTSZ(symbol) symbol "_ptsz"
#else
#define CUDART_PTSZ(symbol) symbol
#endif
#if CUDART_ABI == 12
#define CUDART_RENAMED(symbol_13, symbol_12, name, ...) CUDART_AS(symbol_12, name, __VA_ARGS__)
#define CUDART_RENAMED_STREAM(symbol_13, symbol_12, name, ...) CUDART_AS(CUDART_PTSZ(symbol_12), name, __VA_ARGS__)
#else
#define CUDART_RENAMED(symbol_13, symbol_12, name, ...) CUDART_AS(symbol_13, name, __VA_ARGS__)
#define CUDART_RENAMED_STREAM(symbol_13, symbol_12, name, ...) CUDART_AS(CUDART_PTSZ(symbol_13), name, __VA_ARGS__)
#endif

namespace stalloc::simcuda::cudart {

#if CUDART_ABI == 12
inline constexpr int kRuntimeVersion = 12080;
#else
inline constexpr int kRuntimeVersion = CUDART_VERSION;
#endif

// The runtime's and the driver's error codes are the same numbers.
inline cudaError_t FromDriver(CUresult result) { return static_cast<cudaError_t>(result); }

// Remembers an error as the thread's last one, which all runtimes of the process have in common: a preload may forward
// a call of the one to the other.
cudaError_t Finish(cudaError_t error);
inline cudaError_t Finish(CUresult result) { return Finish(FromDriver(result)); }

cudaError_t LastError(bool clear);

// Makes the primary context of the thread's device current if no context is. CUDA_SUCCESS or why there is none.
CUresult EnsureContext(const Driver& driver);
CUresult ChooseDevice(const Driver& driver, int device);
int ChosenDevice(const Driver& driver);
CUresult ResetDevice(const Driver& driver);

inline constexpr auto kNoDriver = static_cast<CUresult>(cudaErrorInsufficientDriver);

namespace {

inline const DriverFunctions& FunctionsOf(const Driver& driver) {
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
  return driver.per_thread;
#else
  return driver.legacy;
#endif
}

}  // namespace

// body(functions) with the driver initialised.
template <typename Body>
CUresult WithDriver(Body&& body) {
  const Driver* driver = LoadedDriver();
  if (driver == nullptr) return kNoDriver;
  static const CUresult initialised = driver->legacy.real_cuInit(0);
  return initialised == CUDA_SUCCESS ? body(*driver) : initialised;
}

// body(functions) with a context current.
template <typename Body>
CUresult WithContext(Body&& body) {
  return WithDriver([&](const Driver& driver) {
    const CUresult result = EnsureContext(driver);
    return result == CUDA_SUCCESS ? body(FunctionsOf(driver)) : result;
  });
}

inline CUdeviceptr Address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace stalloc::simcuda::cudart
