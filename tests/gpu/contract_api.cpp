// The fidelity contract, as far as calls alone can show it: each row is one question and the answer of the system it
// runs on, printed as `row NAME ANSWER`. Run it without the shim, with it, and over the simulated device: the answers
// must be equal. Answers hold status codes and relations only, never addresses or times.
//
// A host compiler builds it; the driver's functions are found by dlsym, as many programs do.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "contract_api.h"

namespace {

void BeforeAnyContext() {
  const auto init = DRIVER(cuInit);
  if (init.function == nullptr) {
    Row("no_context_alloc", "no_libcuda");
    return;
  }
  CUdeviceptr address = 0;
  const int before = DRIVER(cuMemAlloc)(&address, 4096);
  const int started = init(0);
  Row("no_context_alloc", Joined({before, started, DRIVER(cuMemAlloc)(&address, 4096), DRIVER(cuMemFree)(address)}));
  std::size_t free_bytes = 0;
  Row("no_context_mem_info", Text(DRIVER(cuMemGetInfo)(&free_bytes, nullptr)));
}

void ZeroSizes() {
  void* block = kUntouched;
  int status = cudaMalloc(&block, 0);
  Row("malloc_zero", Text(status) + "," + Pointer(block));
  block = kUntouched;
  status = cudaMallocAsync(&block, 0, nullptr);
  Row("malloc_async_zero", Text(status) + "," + Pointer(block));
  CUdeviceptr address = 0x5A5A5A00;
  status = DRIVER(cuMemAlloc)(&address, 0);
  Row("driver_alloc_zero", Text(status) + "," + YesNo(address == 0x5A5A5A00));
  status = DRIVER(cuMemAllocAsync)(&address, 0, nullptr);
  Row("driver_alloc_async_zero", Text(status));
  Row("free_null", Joined({cudaFree(nullptr), cudaFreeAsync(nullptr, nullptr), DRIVER(cuMemFree)(0)}));
  cudaGetLastError();
}

void WrongFrees() {
  void* block = Malloc(3 * kMiB);
  const int interior = cudaFree(Inside(block, 512));
  const int interior_async = cudaFreeAsync(Inside(block, kMiB), nullptr);
  const int first = cudaFree(block);
  Row("malloc_interior_then_double_free", Joined({interior, interior_async, first, cudaFree(block)}));
  Row("last_error_after_wrong_free", Joined({cudaPeekAtLastError(), cudaGetLastError(), cudaGetLastError()}));
  block = MallocAsync(3 * kMiB, nullptr);
  const int interior2 = cudaFreeAsync(Inside(block, 512), nullptr);
  const int first2 = cudaFreeAsync(block, nullptr);
  Row("async_interior_then_double_free", Joined({interior2, first2, cudaFreeAsync(block, nullptr)}));
  cudaGetLastError();
  const int synchronised = cudaDeviceSynchronize();
  Row("context_lives_after_wrong_frees", Joined({synchronised, cudaGetLastError()}));
  int on_stack = 0;
  Row("free_host_pointer", Joined({cudaFree(&on_stack), cudaGetLastError()}));
}

void CrossedFrees() {
  void* block = Malloc(kMiB);
  Row("free_async_of_malloc", Text(cudaFreeAsync(block, nullptr)));
  block = MallocAsync(kMiB, nullptr);
  Row("free_of_async", Text(cudaFree(block)));
  block = MallocAsync(kMiB, nullptr);
  Row("driver_free_of_async", Text(DRIVER(cuMemFree)(reinterpret_cast<CUdeviceptr>(block))));
  CUdeviceptr address = 0;
  const int made = DRIVER(cuMemAlloc)(&address, kMiB);
  Row("free_of_driver_alloc", Joined({made, cudaFree(reinterpret_cast<void*>(address))}));
  block = Malloc(kMiB);
  int elsewhere = -1;
  std::thread([&] { elsewhere = cudaFree(block); }).join();
  Row("free_on_another_thread", Text(elsewhere));
  cudaStream_t one = nullptr, other = nullptr;
  cudaStreamCreate(&one);
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  block = MallocAsync(kMiB, one);
  cudaStreamSynchronize(one);
  Row("free_on_another_stream", Text(cudaFreeAsync(block, other)));
  block = MallocAsync(kMiB, one);
  cudaStreamDestroy(one);
  Row("free_after_stream_destroyed", Text(cudaFreeAsync(block, nullptr)));
  block = MallocAsync(kMiB, cudaStreamPerThread);
  Row("free_on_legacy_of_per_thread", Joined({block == nullptr, cudaFreeAsync(block, cudaStreamLegacy)}));
  cudaStreamDestroy(other);
  cudaDeviceSynchronize();
  cudaGetLastError();
}

void Alignment() {
  bool small = true, large[2] = {true, true}, apart = true;
  std::vector<std::pair<char*, std::size_t>> blocks;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{255}, std::size_t{1000}, std::size_t{4097}, kMiB + 1,
                                  2 * kMiB, 2 * kMiB + 1, 7 * kMiB, 40 * kMiB + 77}) {
    for (const bool async : {false, true}) {
      auto* const block = static_cast<char*>(async ? MallocAsync(bytes, nullptr) : Malloc(bytes));
      const auto address = reinterpret_cast<std::uintptr_t>(block);
      small = small && block != nullptr && address % 512 == 0;
      large[async] = large[async] && (bytes < 2 * kMiB || address % (2 * kMiB) == 0);
      for (const auto& [other, other_bytes] : blocks) {
        apart = apart && (block + bytes <= other || other + other_bytes <= block);
      }
      blocks.emplace_back(block, bytes);
    }
  }
  Row("aligned_512", YesNo(small));
  Row("large_aligned_2MiB_malloc", YesNo(large[false]));
  Row("large_aligned_2MiB_async", YesNo(large[true]));
  Row("blocks_apart", YesNo(apart));
  for (const auto& [block, bytes] : blocks) {
    cudaFree(block);
  }
  void* rows = nullptr;
  std::size_t pitch = 0;
  int status = cudaMallocPitch(&rows, &pitch, 1000, 33);
  Row("pitch", Joined({status, static_cast<int>(pitch), cudaFree(rows)}));
  cudaPitchedPtr volume = {};
  status = cudaMalloc3D(&volume, cudaExtent{1000, 5, 7});
  Row("pitch_3d", Joined({status, static_cast<int>(volume.pitch), static_cast<int>(volume.xsize),
                          static_cast<int>(volume.ysize), cudaFree(volume.ptr)}));
  CUdeviceptr address = 0;
  status = DRIVER(cuMemAllocPitch)(&address, &pitch, 1000, 33, 16);
  Row("driver_pitch", Joined({status, static_cast<int>(pitch), DRIVER(cuMemFree)(address)}));
}

void OutOfMemory() {
  void* block = kUntouched;
  int status = cudaMalloc(&block, kAbsurd);
  Row("absurd_malloc", Text(status) + "," + Pointer(block));
  Row("absurd_malloc_last_error", Joined({cudaGetLastError(), cudaGetLastError()}));
  block = kUntouched;
  status = cudaMallocAsync(&block, kAbsurd, nullptr);
  Row("absurd_malloc_async", Text(status) + "," + Pointer(block));
  Row("absurd_malloc_async_last_error", Joined({cudaGetLastError(), cudaGetLastError()}));
  cudaMalloc(&block, kAbsurd);
  void* fine = Malloc(kMiB);
  Row("success_keeps_last_error", Joined({fine == nullptr, cudaFree(fine), cudaGetLastError()}));
}

void MemoryInfo() {
  cudaDeviceSynchronize();
  std::size_t before = 0, during = 0, after = 0, total = 0;
  cudaMemGetInfo(&before, &total);
  void* block = Malloc(512 * kMiB);
  cudaMemGetInfo(&during, &total);
  cudaFree(block);
  cudaMemGetInfo(&after, &total);
  Row("mem_info_falls", YesNo(before - during >= 510 * kMiB && before - during <= 576 * kMiB));
  Row("mem_info_rises", YesNo(after + 64 * kMiB >= before && after <= before + 64 * kMiB));
  Row("mem_info_null", Text(DRIVER(cuMemGetInfo)(nullptr, &total)));
  for (int i = 0; i < 2000; ++i) {
    cudaFree(Malloc(static_cast<std::size_t>(1 + i % 97) * 4096));
  }
  cudaMemGetInfo(&during, &total);
  Row("mem_info_after_2000_pairs", YesNo(during + 64 * kMiB >= after));
}

void Attributes() {
  for (const bool async : {false, true}) {
    const std::string kind = async ? "async" : "malloc";
    void* block = async ? MallocAsync(100000, nullptr) : Malloc(100000);
    cudaDeviceSynchronize();
    cudaPointerAttributes about = {};
    int status = cudaPointerGetAttributes(&about, Inside(block, 1000));
    Row(("attributes_" + kind).c_str(), Joined({status, about.type, about.device}) + "," +
                                            YesNo(about.devicePointer == Inside(block, 1000)) + "," +
                                            Pointer(about.hostPointer));
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    const auto address = reinterpret_cast<CUdeviceptr>(block);
    status = DRIVER(cuMemGetAddressRange)(&base, &bytes, address + 4096);
    Row(("address_range_" + kind).c_str(), Text(status) + "," + YesNo(base == address) + "," + std::to_string(bytes));
    Row(("address_range_null_" + kind).c_str(), Text(DRIVER(cuMemGetAddressRange)(&base, nullptr, address)));
    CUdeviceptr start = 0;
    std::size_t size = 0;
    unsigned long long buffer = 0;
    unsigned int memory_type = 0;
    const auto attribute = DRIVER(cuPointerGetAttribute);
    const int a = attribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + 512);
    const int b = attribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address + 512);
    const int c = attribute(&buffer, CU_POINTER_ATTRIBUTE_BUFFER_ID, address + 512);
    const int d = attribute(&memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address + 512);
    Row(("range_attributes_" + kind).c_str(), Joined({a, b, c, d, static_cast<int>(memory_type)}) + "," +
                                                  YesNo(start == address) + "," + std::to_string(size));
    void* second = async ? MallocAsync(100000, nullptr) : Malloc(100000);
    unsigned long long other = 0;
    const int e = attribute(&other, CU_POINTER_ATTRIBUTE_BUFFER_ID, reinterpret_cast<CUdeviceptr>(second));
    Row(("buffer_ids_differ_" + kind).c_str(), Text(e) + "," + YesNo(other != buffer));
    cudaFree(block);
    cudaFree(second);
    status = cudaPointerGetAttributes(&about, block);
    Row(("attributes_after_free_" + kind).c_str(), Joined({status, about.type}));
    cudaGetLastError();
  }
  cudaPointerAttributes about = {};
  int on_stack = 0;
  const int status = cudaPointerGetAttributes(&about, &on_stack);
  Row("attributes_host", Joined({status, about.type}));
  void* managed = nullptr;
  const int made = cudaMallocManaged(&managed, kMiB);
  const int known = cudaPointerGetAttributes(&about, managed);
  Row("managed", Joined({made, known, about.type, cudaFree(managed)}));
}

void Pools() {
  cudaDeviceSynchronize();
  cudaMemPool_t pool = nullptr, current = nullptr;
  const int status = cudaDeviceGetDefaultMemPool(&pool, 0), asked = cudaDeviceGetMemPool(&current, 0);
  Row("default_pool", Joined({status, asked}) + "," + YesNo(pool == current));
  std::uint64_t used = 0, later = 0, high = 0, reserved = 0, value = 123 * kMiB;
  cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used);
  void* block = MallocAsync(8 * kMiB, nullptr);
  cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &later);
  cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved);
  Row("pool_used_rises", std::to_string(later - used) + "," + YesNo(reserved >= later));
  // The counters themselves differ from system to system: for the log.
  std::fprintf(stderr, "pool: %llu bytes used, %llu with a block of 8 MiB, %llu reserved\n",
               static_cast<unsigned long long>(used), static_cast<unsigned long long>(later),
               static_cast<unsigned long long>(reserved));
  cudaFreeAsync(block, nullptr);
  cudaDeviceSynchronize();
  cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &later);
  cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &high);
  Row("pool_used_falls", std::to_string(later - used) + "," + YesNo(high >= used + 8 * kMiB));
  std::uint64_t zero = 0, one = 1;
  const int reset = cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero);
  cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &high);
  Row("pool_high_reset", Text(reset) + "," + YesNo(high == later) + "," +
                             Text(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &one)));
  const int set = cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value);
  std::uint64_t back = 0;
  const int get = cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &back);
  Row("pool_threshold", Joined({set, get}) + "," + YesNo(back == value));
  cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &zero);
  int reuse = 0;
  const int reuse_set = cudaMemPoolSetAttribute(pool, cudaMemPoolReuseFollowEventDependencies, &reuse);
  int reuse_back = 7;
  const int reuse_get = cudaMemPoolGetAttribute(pool, cudaMemPoolReuseFollowEventDependencies, &reuse_back);
  Row("pool_reuse_attribute", Joined({reuse_set, reuse_get, reuse_back}));
  Row("pool_trim", Text(cudaMemPoolTrimTo(pool, 0)));
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = 0;
  cudaMemPool_t own = nullptr;
  const int created = cudaMemPoolCreate(&own, &properties);
  const int from_pool = cudaMallocFromPoolAsync(&block, kMiB, own, nullptr);
  const int freed = cudaFreeAsync(block, nullptr);
  Row("own_pool", Joined({created, from_pool, freed, cudaDeviceSynchronize(), cudaMemPoolDestroy(own)}));
  const int from_default = cudaMallocFromPoolAsync(&block, kMiB, pool, nullptr);
  Row("default_pool_by_name", Joined({from_default, cudaFreeAsync(block, nullptr)}));
  cudaGetLastError();
}

void Captures() {
  struct Mode {
    const char* name;
    cudaStreamCaptureMode mode;
  };
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  for (const Mode& mode :
       {Mode{"global", cudaStreamCaptureModeGlobal}, Mode{"thread", cudaStreamCaptureModeThreadLocal},
        Mode{"relaxed", cudaStreamCaptureModeRelaxed}}) {
    const std::string name = mode.name;
    cudaGraph_t graph = nullptr;
    void* block = nullptr;
    int begun = cudaStreamBeginCapture(stream, mode.mode);
    int inside = cudaMalloc(&block, kMiB);
    int ended = cudaStreamEndCapture(stream, &graph);
    Row(("capture_" + name + "_malloc").c_str(), Joined({begun, inside, ended}));
    cudaGetLastError();
    if (inside == cudaSuccess) {
      cudaFree(block);
    }
    begun = cudaStreamBeginCapture(stream, mode.mode);
    std::thread([&] { inside = cudaMalloc(&block, kMiB); }).join();
    ended = cudaStreamEndCapture(stream, &graph);
    Row(("capture_" + name + "_malloc_elsewhere").c_str(), Joined({begun, inside, ended}));
    cudaGetLastError();
    if (inside == cudaSuccess) {
      cudaFree(block);
    }
    void* before = Malloc(kMiB);
    begun = cudaStreamBeginCapture(stream, mode.mode);
    inside = cudaFree(before);
    ended = cudaStreamEndCapture(stream, &graph);
    Row(("capture_" + name + "_free").c_str(), Joined({begun, inside, ended}));
    cudaGetLastError();
    begun = cudaStreamBeginCapture(stream, mode.mode);
    inside = cudaMallocAsync(&block, kMiB, stream);
    const int freed = cudaFreeAsync(block, stream);
    ended = cudaStreamEndCapture(stream, &graph);
    std::size_t nodes = 0;
    cudaGraphGetNodes(graph, nullptr, &nodes);
    Row(("capture_" + name + "_async").c_str(), Joined({begun, inside, freed, ended, static_cast<int>(nodes)}));
    cudaGraphDestroy(graph);
    cudaGetLastError();
  }
  cudaStreamDestroy(stream);
}

void Contents() {
  bool right = true;
  for (const std::size_t bytes : {std::size_t{1000}, 2 * kMiB, 33 * kMiB + 5}) {
    for (const bool async : {false, true}) {
      void* block = async ? MallocAsync(bytes, nullptr) : Malloc(bytes);
      cudaMemset(block, 0xA7, bytes);
      std::vector<unsigned char> host(bytes, 0);
      right = right && cudaMemcpy(host.data(), block, bytes, cudaMemcpyDeviceToHost) == cudaSuccess;
      for (const unsigned char byte : host) {
        right = right && byte == 0xA7;
      }
      cudaFree(block);
    }
  }
  Row("contents", YesNo(right));
}

void OtherRoutes() {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const int status = cudaGetDriverEntryPointByVersion("cuMemAllocAsync", &entry, 12000, cudaEnableDefault, &found);
  CUdeviceptr address = 0;
  const int made = entry == nullptr ? -1 : reinterpret_cast<decltype(&cuMemAllocAsync)>(entry)(&address, kMiB, nullptr);
  Row("entry_point_by_version", Joined({status, found, made, cudaFree(reinterpret_cast<void*>(address))}));
  const auto lookup = DRIVER(cuGetProcAddress);
  CUdriverProcAddressQueryResult result = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  entry = nullptr;
  const int looked = lookup("cuMemAlloc", &entry, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &result);
  Row("proc_address",
      Joined({looked, result}) + "," + YesNo(entry == reinterpret_cast<void*>(DRIVER(cuMemAlloc).function)));
  const int unknown = lookup("cuNoSuchFunction", &entry, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &result);
  Row("proc_address_unknown", Joined({unknown, result}));
  void* block = Malloc(kMiB);
  cudaIpcMemHandle_t handle = {};
  Row("ipc_handle_of_malloc", Text(cudaIpcGetMemHandle(&handle, block)));
  cudaFree(block);
  cudaGetLastError();
  void* host = nullptr;
  Row("host_alloc", Joined({cudaMallocHost(&host, kMiB), cudaFreeHost(host)}));
}

// The device that is current, asked twice: the second answer may be a remembered one.
std::string CurrentDevice() {
  int once = -1, twice = -1;
  const int status = cudaGetDevice(&once);
  return Joined({status, once, cudaGetDevice(&twice), twice});
}

void WhichDevice() {
  using Create = CUresult(CUcontext*, unsigned int, CUdevice);
  Row("device_of_primary", CurrentDevice());
  CUcontext made = nullptr, popped = nullptr;
  Driver<Create>("cuCtxCreate_v2")(&made, 0u, 0);
  Row("device_of_made_context", CurrentDevice());
  std::thread([&] { DRIVER(cuCtxDestroy)(made); }).join();
  Row("device_of_destroyed_context", CurrentDevice());
  DRIVER(cuCtxPopCurrent)(&popped);
  Row("device_without_context", Text(DRIVER(cuCtxSetCurrent)(nullptr)) + "," + CurrentDevice());
  Row("device_set", Text(cudaSetDevice(0)) + "," + CurrentDevice());
  Row("device_null", Joined({cudaGetDevice(nullptr), cudaGetLastError()}));
}

void Reset() {
  void* kept = Malloc(kMiB);
  const int reset = cudaDeviceReset();
  Row("device_after_reset", CurrentDevice());
  Row("free_after_reset", Joined({reset, cudaFree(kept)}));
  cudaGetLastError();
  void* block = Malloc(kMiB);
  Row("malloc_after_reset",
      Joined({block == nullptr, cudaMemset(block, 1, kMiB), cudaDeviceSynchronize(), cudaFree(block)}));
  block = MallocAsync(kMiB, nullptr);
  Row("async_after_reset", Joined({block == nullptr, cudaFreeAsync(block, nullptr), cudaDeviceSynchronize()}));
}

}  // namespace

int main() {
  BeforeAnyContext();
  if (const cudaError_t status = cudaFree(nullptr); status != cudaSuccess) {
    std::fprintf(stderr, "no device: %s\n", cudaGetErrorString(status));
    return 77;
  }
  for (void (*part)() : {ZeroSizes, WrongFrees, CrossedFrees, Alignment, OutOfMemory, MemoryInfo, Attributes, Pools,
                         Captures, Contents, OtherRoutes, WhichDevice, Reset}) {
    part();
  }
  Row("end", "reached");
  return 0;
}
