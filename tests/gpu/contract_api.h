// What contract_api.cpp asks with: rows, answers as text, and the driver's functions found by dlsym.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr std::size_t kAbsurd = std::size_t{1} << 50;

inline void* const kUntouched = reinterpret_cast<void*>(std::uintptr_t{0x5A5A5A00});

inline void Row(const char* name, const std::string& answer) {
  std::printf("row %s %s\n", name, answer.c_str());
  std::fflush(stdout);
}

inline std::string Text(int status) { return std::to_string(status); }

inline std::string Joined(const std::vector<int>& statuses) {
  std::string all;
  for (const int status : statuses) {
    all += (all.empty() ? "" : ",") + std::to_string(status);
  }
  return all;
}

inline const char* Pointer(const void* pointer) {
  return pointer == nullptr ? "null" : pointer == kUntouched ? "untouched" : "set";
}

inline const char* YesNo(bool yes) { return yes ? "yes" : "no"; }

// A driver function found by dlsym; calling one that is not there answers -1.
template <typename Function>
struct DriverFunction {
  Function* function;

  template <typename... Arguments>
  int operator()(Arguments... arguments) const {
    return function == nullptr ? -1 : static_cast<int>(function(arguments...));
  }
};

template <typename Function>
DriverFunction<Function> Driver(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  return {library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name))};
}

// The driver's entry points under the names that the library exports.
#define DRIVER(name) Driver<decltype(name)>(STRINGIFY(name))
#define STRINGIFY_(x) #x
#define STRINGIFY(x) STRINGIFY_(x)

inline void* Malloc(std::size_t bytes) {
  void* block = nullptr;
  return cudaMalloc(&block, bytes) == cudaSuccess ? block : nullptr;
}

inline void* MallocAsync(std::size_t bytes, cudaStream_t stream) {
  void* block = nullptr;
  return cudaMallocAsync(&block, bytes, stream) == cudaSuccess ? block : nullptr;
}

inline void* Inside(void* block, std::size_t bytes) { return static_cast<char*>(block) + bytes; }
