// A program like any other that uses the CUDA runtime: checks what the runtime promises and what was measured on a real
// one. Prints what is wrong; exit code 1 if anything is. Built against the shared and the static runtime.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

namespace {

int failures = 0;

#define CHECK_EQUAL(actual, expected)                                                                                 \
  do {                                                                                                                \
    const auto actual_value = (actual);                                                                               \
    const auto expected_value = (expected);                                                                           \
    if (!(actual_value == expected_value)) {                                                                          \
      std::printf("%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #actual, static_cast<long long>(actual_value), \
                  static_cast<long long>(expected_value));                                                            \
      ++failures;                                                                                                     \
    }                                                                                                                 \
  } while (false)

long long Number(const void* pointer) { return reinterpret_cast<long long>(pointer); }

void Sizes() {
  void* pointer = &failures;
  CHECK_EQUAL(cudaMalloc(&pointer, 0), cudaSuccess);
  CHECK_EQUAL(Number(pointer), 0);
  CHECK_EQUAL(cudaMallocAsync(&pointer, 0, nullptr), cudaSuccess);
  CHECK_EQUAL(Number(pointer), 0);
  CHECK_EQUAL(cudaFree(nullptr), cudaSuccess);
  void* first = nullptr;
  void* second = nullptr;
  CHECK_EQUAL(cudaMalloc(&first, 1000), cudaSuccess);
  CHECK_EQUAL(cudaMalloc(&second, 1000), cudaSuccess);
  CHECK_EQUAL(Number(second) - Number(first), 1024);
  CHECK_EQUAL(cudaFree(static_cast<char*>(first) + 512), cudaErrorInvalidValue);
  CHECK_EQUAL(cudaGetLastError(), cudaErrorInvalidValue);
  CHECK_EQUAL(cudaFree(first), cudaSuccess);
  CHECK_EQUAL(cudaFree(first), cudaErrorInvalidValue);
  CHECK_EQUAL(cudaFree(second), cudaSuccess);
  cudaGetLastError();
}

void CrossedFrees() {
  void* pointer = nullptr;
  CHECK_EQUAL(cudaMalloc(&pointer, 4 << 20), cudaSuccess);
  CHECK_EQUAL(Number(pointer) % (2 << 20), 0);
  CHECK_EQUAL(cudaFreeAsync(pointer, nullptr), cudaSuccess);
  CHECK_EQUAL(cudaFreeAsync(pointer, nullptr), cudaErrorInvalidValue);
  CHECK_EQUAL(cudaMallocAsync(&pointer, 4 << 20, nullptr), cudaSuccess);
  CHECK_EQUAL(cudaFree(pointer), cudaSuccess);
  CHECK_EQUAL(cudaFree(pointer), cudaErrorInvalidValue);
  cudaGetLastError();
}

void LastErrorIsTheThreads() {
  void* pointer = &failures;
  CHECK_EQUAL(cudaMalloc(&pointer, ~std::size_t{0} / 2), cudaErrorMemoryAllocation);
  CHECK_EQUAL(Number(pointer), 0);
  CHECK_EQUAL(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  std::thread([] { CHECK_EQUAL(cudaGetLastError(), cudaSuccess); }).join();
  CHECK_EQUAL(cudaMalloc(&pointer, 64), cudaSuccess);
  CHECK_EQUAL(cudaFree(pointer), cudaSuccess);
  CHECK_EQUAL(cudaGetLastError(), cudaErrorMemoryAllocation);
  CHECK_EQUAL(cudaGetLastError(), cudaSuccess);
  CHECK_EQUAL(std::strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation"), 0);
  CHECK_EQUAL(std::strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory"), 0);
}

void Copies() {
  std::vector<int> out(1000), in(1000);
  for (int i = 0; i < 1000; ++i) out[static_cast<std::size_t>(i)] = i * i;
  const std::size_t size_bytes = out.size() * sizeof(int);
  void* pointer = nullptr;
  CHECK_EQUAL(cudaMalloc(&pointer, size_bytes), cudaSuccess);
  CHECK_EQUAL(cudaMemcpy(pointer, out.data(), size_bytes, cudaMemcpyHostToDevice), cudaSuccess);
  CHECK_EQUAL(cudaMemset(pointer, 0, 8), cudaSuccess);
  CHECK_EQUAL(cudaMemcpy(in.data(), pointer, size_bytes, cudaMemcpyDefault), cudaSuccess);
  out[0] = out[1] = 0;
  CHECK_EQUAL(in == out, true);
  cudaPointerAttributes attributes;
  CHECK_EQUAL(cudaPointerGetAttributes(&attributes, pointer), cudaSuccess);
  CHECK_EQUAL(attributes.type, cudaMemoryTypeDevice);
  CHECK_EQUAL(cudaPointerGetAttributes(&attributes, in.data()), cudaSuccess);
  CHECK_EQUAL(attributes.type, cudaMemoryTypeUnregistered);
  void* managed = nullptr;
  CHECK_EQUAL(cudaMallocManaged(&managed, 64, cudaMemAttachGlobal), cudaSuccess);
  CHECK_EQUAL(cudaMemset(managed, 7, 64), cudaSuccess);
  CHECK_EQUAL(cudaDeviceSynchronize(), cudaSuccess);
  CHECK_EQUAL(static_cast<unsigned char*>(managed)[63], 7);
  CHECK_EQUAL(cudaFree(pointer), cudaSuccess);
}

void Capture() {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  void* pointer = nullptr;
  CHECK_EQUAL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  CHECK_EQUAL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  CHECK_EQUAL(cudaMalloc(&pointer, 64), cudaErrorStreamCaptureUnsupported);
  CHECK_EQUAL(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  CHECK_EQUAL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  CHECK_EQUAL(cudaMallocAsync(&pointer, 64, stream), cudaSuccess);
  CHECK_EQUAL(cudaMemsetAsync(pointer, 1, 64, stream), cudaSuccess);
  CHECK_EQUAL(cudaFreeAsync(pointer, stream), cudaSuccess);
  CHECK_EQUAL(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  CHECK_EQUAL(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  CHECK_EQUAL(cudaGraphLaunch(exec, stream), cudaSuccess);
  CHECK_EQUAL(cudaStreamSynchronize(stream), cudaSuccess);
  CHECK_EQUAL(cudaGraphExecDestroy(exec), cudaSuccess);
  CHECK_EQUAL(cudaGraphDestroy(graph), cudaSuccess);
  CHECK_EQUAL(cudaStreamDestroy(stream), cudaSuccess);
  cudaGetLastError();
}

void PitchesAndPools() {
  void* pointer = nullptr;
  std::size_t pitch = 0;
  CHECK_EQUAL(cudaMallocPitch(&pointer, &pitch, 700, 3), cudaSuccess);
  CHECK_EQUAL(pitch, 1024u);
  CHECK_EQUAL(cudaFree(pointer), cudaSuccess);
  cudaPitchedPtr pitched{};
  CHECK_EQUAL(cudaMalloc3D(&pitched, cudaExtent{700, 3, 2}), cudaSuccess);
  CHECK_EQUAL(pitched.pitch, 1024u);
  CHECK_EQUAL(pitched.ysize, 3u);
  CHECK_EQUAL(cudaFree(pitched.ptr), cudaSuccess);
  cudaMemPool_t pool = nullptr;
  CHECK_EQUAL(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
  std::uint64_t used = 0;
  CHECK_EQUAL(cudaMallocFromPoolAsync(&pointer, 1000, pool, nullptr), cudaSuccess);
  CHECK_EQUAL(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used), cudaSuccess);
  CHECK_EQUAL(used, 1024u);
  CHECK_EQUAL(cudaFreeAsync(pointer, nullptr), cudaSuccess);
}

void EntryPointsAndVersions() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status{};
  CHECK_EQUAL(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 12000, cudaEnableDefault, &status),
              cudaSuccess);
  CHECK_EQUAL(status, cudaDriverEntryPointSuccess);
  CHECK_EQUAL(cudaGetDriverEntryPointByVersion("cuNothing", &function, 12000, cudaEnableDefault, &status), cudaSuccess);
  CHECK_EQUAL(status, cudaDriverEntryPointSymbolNotFound);
  int version = 0;
  CHECK_EQUAL(cudaRuntimeGetVersion(&version), cudaSuccess);
  CHECK_EQUAL(version, CUDART_VERSION);
}

void DevicesAndReset() {
  int count = 0, device = -1;
  CHECK_EQUAL(cudaGetDeviceCount(&count), cudaSuccess);
  CHECK_EQUAL(count, 2);
  CHECK_EQUAL(cudaSetDevice(2), cudaErrorInvalidDevice);
  CHECK_EQUAL(cudaSetDevice(1), cudaSuccess);
  CHECK_EQUAL(cudaGetDevice(&device), cudaSuccess);
  CHECK_EQUAL(device, 1);
  CHECK_EQUAL(cudaDeviceEnablePeerAccess(0, 0), cudaSuccess);
  void* pointer = nullptr;
  CHECK_EQUAL(cudaMalloc(&pointer, 64), cudaSuccess);
  CHECK_EQUAL(cudaMemset(static_cast<char*>(pointer) + (8 << 20), 1, 64), cudaErrorInvalidValue);
  CHECK_EQUAL(cudaDeviceReset(), cudaSuccess);
  CHECK_EQUAL(cudaGetLastError(), cudaSuccess);
  CHECK_EQUAL(cudaMalloc(&pointer, 64), cudaSuccess);
}

}  // namespace

int main() {
  Sizes();
  CrossedFrees();
  LastErrorIsTheThreads();
  Copies();
  Capture();
  PitchesAndPools();
  EntryPointsAndVersions();
  DevicesAndReset();
  return failures == 0 ? 0 : 1;
}
