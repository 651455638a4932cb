// A fake libcudart.so.13 (and, compiled into a program, a static one) over whatever libcuda.so.1 the process finds: it
// opens that in its first call, gets cuGetProcAddress_v2 by dlsym and every other function from it, makes the primary
// context current, and keeps a last error, as the real one does.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdlib>

#undef cuGetProcAddress

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t Result(CUresult result) {
  if (result == CUDA_SUCCESS) return cudaSuccess;
  return last_error = static_cast<cudaError_t>(result);
}

template <typename Function>
Function* Find(const char* base, int version, cuuint64_t flags) {
  using Resolver = CUresult(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
  static const auto resolve = [] {
    void* library = ::dlopen("libcuda.so.1", RTLD_NOW);
    return library != nullptr ? reinterpret_cast<Resolver*>(::dlsym(library, "cuGetProcAddress_v2")) : nullptr;
  }();
  CUdriverProcAddressQueryResult status;
  void* function = nullptr;
  if (resolve == nullptr || resolve(base, &function, version, flags, &status) != CUDA_SUCCESS) return nullptr;
  return reinterpret_cast<Function*>(function);
}

// Calls the driver's function, in the calling thread's primary context.
template <typename Function, typename... Arguments>
cudaError_t Call(const char* base, int version, cuuint64_t flags, Arguments... arguments) {
  const auto get = Find<decltype(::cuCtxGetCurrent)>("cuCtxGetCurrent", 4000, 0);
  CUcontext context = nullptr;
  if (get == nullptr) return last_error = cudaErrorInsufficientDriver;
  if (get(&context) != CUDA_SUCCESS || context == nullptr) {
    static CUcontext primary = [] {
      CUcontext made = nullptr;
      Find<decltype(::cuInit)>("cuInit", 2000, 0)(0);
      Find<decltype(::cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain", 7000, 0)(&made, 0);
      return made;
    }();
    Find<decltype(::cuCtxSetCurrent)>("cuCtxSetCurrent", 4000, 0)(primary);
  }
  const auto function = Find<Function>(base, version, flags);
  return function != nullptr ? Result(function(arguments...)) : last_error = cudaErrorSymbolNotFound;
}

CUdeviceptr* Address(void** pointer) { return reinterpret_cast<CUdeviceptr*>(pointer); }
CUdeviceptr Address(void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

constexpr cuuint64_t kLegacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

}  // namespace

FAKE_EXPORT cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

FAKE_EXPORT cudaError_t cudaPeekAtLastError() { return last_error; }

FAKE_EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
  const char* other = std::getenv("FAKE_CUDART_VERSION");
  *version = other != nullptr ? std::atoi(other) : CUDART_VERSION;
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaMalloc(void** pointer, size_t size) {
  if (size == 0) {
    *pointer = nullptr;
    return cudaSuccess;
  }
  return Call<decltype(::cuMemAlloc)>("cuMemAlloc", 3020, kLegacy, Address(pointer), size);
}

FAKE_EXPORT cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  return Call<decltype(::cuMemAllocPitch)>("cuMemAllocPitch", 3020, kLegacy, Address(pointer), pitch, width, height,
                                           4u);
}

FAKE_EXPORT cudaError_t cudaFree(void* pointer) {
  return Call<decltype(::cuMemFree)>("cuMemFree", 3020, kLegacy, Address(pointer));
}

FAKE_EXPORT cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  return Call<decltype(::cuMemGetInfo)>("cuMemGetInfo", 3020, kLegacy, free_bytes, total);
}

FAKE_EXPORT cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer) {
  return Call<decltype(::cuIpcGetMemHandle)>("cuIpcGetMemHandle", 4010, kLegacy,
                                             reinterpret_cast<CUipcMemHandle*>(handle), Address(pointer));
}

FAKE_EXPORT cudaError_t cudaDeviceReset() {
  return Call<decltype(::cuDevicePrimaryCtxReset)>("cuDevicePrimaryCtxReset", 11000, kLegacy, 0);
}

FAKE_EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned int version,
                                                         unsigned long long flags, cudaDriverEntryPointQueryResult*) {
  *function = reinterpret_cast<void*>(Find<void()>(symbol, static_cast<int>(version), flags));
  return cudaSuccess;
}

#define FAKE_ASYNC(suffix, flags)                                                                                     \
  FAKE_EXPORT cudaError_t cudaMallocAsync##suffix(void** pointer, size_t size, cudaStream_t stream) {                 \
    if (size == 0) return *pointer = nullptr, cudaSuccess;                                                            \
    return Call<decltype(::cuMemAllocAsync)>("cuMemAllocAsync", 11020, flags, Address(pointer), size, stream);        \
  }                                                                                                                   \
  FAKE_EXPORT cudaError_t cudaMallocFromPoolAsync##suffix(void** pointer, size_t size, cudaMemPool_t pool,            \
                                                          cudaStream_t stream) {                                      \
    return Call<decltype(::cuMemAllocFromPoolAsync)>("cuMemAllocFromPoolAsync", 11020, flags, Address(pointer), size, \
                                                     pool, stream);                                                   \
  }                                                                                                                   \
  FAKE_EXPORT cudaError_t cudaFreeAsync##suffix(void* pointer, cudaStream_t stream) {                                 \
    return Call<decltype(::cuMemFreeAsync)>("cuMemFreeAsync", 11020, flags, Address(pointer), stream);                \
  }
FAKE_ASYNC(, kLegacy)
FAKE_ASYNC(_ptsz, kPerThread)
